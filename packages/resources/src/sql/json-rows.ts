/** Writes rows as a JSON array, which is one parameter of a statement however many rows there are. */
import type { Values } from '@resource-api/database/client'
import { mapInTurns, SHORT_TURN_MS } from '@resource-api/database/concurrency'
import type { PgColumn } from 'drizzle-orm/pg-core'
import { getColumn } from './conditions.ts'

/** Returns the values of a row, by the names of their columns, in the form in which PostgreSQL reads them from JSON. */
export function toJsonRow(
  columns: Readonly<Record<string, PgColumn>>,
  names: readonly string[],
  row: Values,
) {
  const values: Record<string, unknown> = {}
  for (const name of names) {
    const column = getColumn(columns, name)
    const value = row[name]
    // PostgreSQL reads values and arrays of JSON itself.
    const isJson = value === null || column.dataType === 'json' || column.dataType === 'array'
    values[column.name] = isJson ? value : column.mapToDriverValue(value)
  }
  return values
}

export async function writeJsonRows<T>(
  rows: readonly T[],
  toJson: (row: T, position: number) => object,
): Promise<string> {
  const texts = await mapInTurns(
    rows,
    (row, position) => JSON.stringify(toJson(row, position)),
    SHORT_TURN_MS,
  )
  return `[${texts.join()}]`
}
