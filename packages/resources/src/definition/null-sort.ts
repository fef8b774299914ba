/** The expressions that sort a nullable column so that NULL comes last in both directions. */
import { type SQL, sql } from 'drizzle-orm'
import type { PgColumn } from 'drizzle-orm/pg-core'
import type { SortKey } from './resource-table.ts'

const coalesce = (column: PgColumn, type: string, greatest: string, least: string): SortKey => {
  const orElse = (text: string): SQL => sql`coalesce(${column}, ${sql.raw(`'${text}'::${type}`)})`
  return {
    column,
    ascending: orElse(greatest),
    descending: orElse(least),
    nulls: { ascending: greatest, descending: least },
  }
}

/** Returns what a field sorts by: its column or, for a nullable one, expressions, each of which has an index. */
export function toSortKey(column: PgColumn): SortKey {
  if (column.notNull) return column
  const type = column.getSQLType()
  if (type === 'date') return coalesce(column, 'date', 'infinity', '-infinity')
  if (type.startsWith('timestamp')) return coalesce(column, 'timestamptz', 'infinity', '-infinity')
  if (type.startsWith('numeric')) return coalesce(column, 'numeric', 'Infinity', '-Infinity')
  if (/^(bigint|integer|smallint)$/.test(type))
    return coalesce(column, 'bigint', '9223372036854775807', '-9223372036854775808')
  // Texts have no greatest value, so all but NULL get the prefix "0".
  return {
    column,
    ascending: sql`coalesce('0' || ${column}, '1')`,
    descending: sql`coalesce(${column}, '')`,
    nulls: { ascending: '1', descending: '' },
    prefix: '0',
  }
}
