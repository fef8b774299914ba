/**
 * The rows that each role may access: as docs/access-matrix.json promises, or, for resources that it does not have, as
 * their definitions say.
 */
import { readFileSync } from 'node:fs'
import type { Role, Verb } from '../../plugins/access/index.ts'
import { buildAccessTable, roles } from '../../scripts/access-tables.ts'
import { definitions } from './definitions.ts'

export { roles }

/** `all`, `none`, or conditions, such as `own or published`. */
export type Cell = string

type Matrix = Record<string, Partial<Record<Verb, Record<Role, Cell>>>>

const file = new URL('../../docs/access-matrix.json', import.meta.url)

/** The promises, which do not follow from the definitions. A resource that is not registered is ignored. */
export const promises: Matrix = JSON.parse(readFileSync(file, 'utf8'))

export const matrix: Matrix = Object.fromEntries(
  definitions
    // The access to an event depends on its resource: see test/events/access.test.ts.
    .filter(({ name }) => name !== 'events')
    .map((definition) => [definition.name, promises[definition.name] ?? buildAccessTable(definition)]),
)

/** Returns the conditions of a cell: a row must meet one of them, with all its parts. */
export const getConditions = (cell: Cell): string[][] =>
  cell === 'all' || cell === 'none' ? [] : cell.split(' or ').map((condition) => condition.split(' and '))

/** Returns the field and the value that a part of a condition compares; undefined if it compares the owner. */
export function getComparison(part: string): [field: string, value: string] | undefined {
  if (/^own\b/.test(part)) return undefined
  const [field = '', ...value] = part.split(' ')
  return value.length > 0 ? [field, value.join(' ')] : ['status', part]
}

/** Returns whether a cell of the matrix allows a row. */
export function allowsRow(cell: Cell, row: { own: boolean; [field: string]: unknown }): boolean {
  if (cell === 'all') return true
  return getConditions(cell).some((parts) =>
    parts.every((part) => {
      const [field, value] = getComparison(part) ?? ['own', true]
      return row[field] === value
    }),
  )
}
