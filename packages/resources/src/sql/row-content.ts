/** The columns of a row by the names of its members, and its revision. */
import { getRowParts, showColumn } from '@resource-api/database/key'
import type { TObject } from '@sinclair/typebox'
import { getTableColumns, is, type SQL, sql } from 'drizzle-orm'
import { PgColumn, type PgTable } from 'drizzle-orm/pg-core'
import type { ResourceTable } from '../definition/resource-table.ts'

interface Content {
  table: ResourceTable
  schemas: { read: TObject }
}

export const getColumns = (table: ResourceTable): Readonly<Record<string, PgColumn>> => getTableColumns(table)

/** Returns the function that returns the names of the members that are columns, from those of the columns. */
export function createToMembers(table: PgTable): (names: readonly string[]) => string[] {
  const members = new Map(Object.entries(getTableColumns(table)).map(([member, { name }]) => [name, member]))
  return (names) => names.map((name) => members.get(name) ?? name)
}

/**
 * Returns the revision of a row: its column; without one, a hash of the members, so that it changes with each of them, also
 * if another program has changed the row, and not with the columns that are not shown.
 */
export function getRevision({ table, schemas }: Content): PgColumn | SQL {
  const { revision } = getRowParts(table)
  if (revision) return revision
  const shown = Object.entries(getColumns(table)).flatMap(([name, column]) =>
    name in schemas.read.properties ? [column] : [],
  )
  return sql`hashtextextended(row(${sql.join(shown, sql`, `)})::text, 0) & ${sql.raw(`${Number.MAX_SAFE_INTEGER}`)}`
}

/** Returns the values of a new row that the engine itself sets. That of a time is read by PostgreSQL. */
export function getInitialValues(table: ResourceTable): Readonly<Record<string, unknown>> {
  const { created, revision } = getRowParts(table)
  if (revision) return { revision: 1 }
  const hasDefault = created === undefined || getColumns(table)[created]?.hasDefault
  return hasDefault ? {} : { [created]: 'now' }
}

/** Returns a field as a statement of the query builder selects it under a name. */
export function nameField(name: string, field: PgColumn | SQL): PgColumn | SQL.Aliased {
  const shown = is(field, PgColumn) ? showColumn(field) : field
  return is(shown, PgColumn) && shown.name === name ? shown : sql`${shown}`.as(name)
}
