/** Inserts a row into any table, with the rows that it refers to. */
import { getTableConfig, type PgColumn, type PgTable } from 'drizzle-orm/pg-core'
import { v7 as uuid } from 'uuid'
import type { Database, Param } from '../../drizzle/client/index.ts'

/** Returns a valid value of a required column. Texts and ids differ from row to row, as unique columns need. */
function getValue(column: PgColumn): Param {
  const type = column.getSQLType()
  if (type.startsWith('text') || type === 'uuid') return uuid()
  if (type === 'date') return '2026-12-01'
  if (type.startsWith('timestamp')) return '2026-12-01T09:30:00Z'
  if (type === 'boolean') return false
  return type === 'jsonb' ? '[]' : 1
}

/**
 * @param given the values of some columns
 * @returns the id of the row; other columns that are nullable or have a default are not set
 */
export async function insertRow(
  database: Database,
  table: PgTable,
  given: Readonly<Record<string, Param>> = {},
): Promise<string> {
  const { name, columns, foreignKeys } = getTableConfig(table)
  const targets = new Map(
    foreignKeys.map((key) => {
      const { columns: keyColumns, foreignTable } = key.reference()
      return [keyColumns[0]?.name, foreignTable]
    }),
  )
  const id = uuid()
  const values = new Map<string, Param>()
  for (const column of columns) {
    const target = targets.get(column.name)
    if (column.name === 'id') values.set('id', id)
    else if (given[column.name] !== undefined) values.set(column.name, given[column.name] ?? null)
    else if (!column.notNull || column.hasDefault) continue
    else values.set(column.name, target ? await insertRow(database, target) : getValue(column))
  }
  const params = [...values.keys()].map((_, i) => `$${i + 1}`)
  const names = [...values.keys()].map((column) => `"${column}"`)
  await database.run(`insert into "${name}" (${names.join()}) values (${params.join()})`, [
    ...values.values(),
  ])
  return id
}
