/** Prints the figures of a part of `bench:rows` beside their goals. */
import { formatTable } from './report.ts'

export interface Figure {
  name: string
  value: string
  /** What the value has to be, and whether it is. */
  goal?: readonly [text: string, isReached: boolean]
}

/** Prints a table in Markdown. @returns whether all goals are reached */
export function printFigures(title: string, figures: readonly Figure[]): boolean {
  const rows = figures.map(({ name, value, goal }) => [
    name,
    value,
    goal?.[0] ?? '',
    goal === undefined ? '' : goal[1] ? 'yes' : 'no',
  ])
  console.log(`${formatTable([title, 'Measured', 'Goal', 'Reached'], rows)}\n`)
  return figures.every(({ goal }) => goal?.[1] ?? true)
}
