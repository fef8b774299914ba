/** What a command is: its words for --help, its options, and what it does with them. */

/** An option takes a value, always; what has no default may be left out. */
interface Option {
  /** What stands for the value in --help. */
  value: string
  help: string
  default?: string
}

/** The arguments and options as they were typed, or their defaults. */
export type Values = Readonly<Record<string, string | undefined>>

export interface Command {
  summary: string
  /** What --help says below the options. */
  details?: string
  /** Values without a name in front, in this order, all required: the name of each, and what --help says of it. */
  arguments?: Readonly<Record<string, string>>
  options: Readonly<Record<string, Option>>
  /** Ends with exit code 0, or, where it throws, with 1; `serve` goes on. */
  run(values: Values): Promise<void>
}

/** The commands by what is typed: one word, or two (`keys create`). */
export type Commands = Readonly<Record<string, Command>>

/** Something was typed that is not understood: exit code 2. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}

/** Returns the value of an option that has no default. @throws UsageError */
export function required(values: Values, name: string): string {
  const value = values[name]
  if (value === undefined) throw new UsageError(`--${name} is required`)
  return value
}

/** An option's value as a whole number. */
export function wholeNumber(values: Values, name: string, least: number, most: number): number {
  const text = values[name] ?? ''
  const number = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN
  if (number >= least && number <= most) return number
  throw new UsageError(`--${name} must be a whole number from ${least} to ${most}, not '${text}'`)
}
