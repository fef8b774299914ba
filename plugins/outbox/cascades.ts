/** Finds the rows that PostgreSQL deletes with a row, so that they can be deleted with an event each before it. */
import { getTableName } from 'drizzle-orm'
import { getTableConfig } from 'drizzle-orm/pg-core'
import type { ResourceTable } from '../collection/resource-table.ts'
import type { Recorders } from './recorder.ts'

/** The deletion of the dependent rows of one table. `$1` is the id of the row that they depend on. */
interface Cascade {
  table: ResourceTable
  /** Locks the rows first, so that no new row can refer to them. Only for rows that others depend on. */
  lock?: string
  text: string
}

/** Returns the columns of a table that refer to the id of another table with `on delete cascade`. */
function listCascadingColumns(table: ResourceTable, to: ResourceTable): string[] {
  return getTableConfig(table).foreignKeys.flatMap((key) => {
    const { columns, foreignTable } = key.reference()
    const [column] = columns
    return key.onDelete === 'cascade' && foreignTable === to && column ? [column.name] : []
  })
}

function listDependent(
  recorders: Recorders,
  table: ResourceTable,
  ids: string,
  path: readonly ResourceTable[],
): Cascade[] {
  return [...recorders.values()].flatMap(({ table: dependent, tableName }): Cascade[] => {
    // Rows that refer to rows of their own table are deleted by PostgreSQL alone.
    if (path.includes(dependent)) return []
    return listCascadingColumns(dependent, table).flatMap((column) => {
      const condition = `"${column}" ${ids}`
      const selectIds = `in (select id from "${tableName}" where ${condition})`
      const [first, ...others] = listDependent(recorders, dependent, selectIds, [...path, dependent])
      const removal: Cascade = { table: dependent, text: `delete from "${tableName}" where ${condition}` }
      if (!first) return [removal]
      const lock = `select 1 from "${tableName}" where ${condition} order by id for update`
      return [{ ...first, lock }, ...others, removal]
    })
  })
}

/** Returns the deletions that have to precede that of a row of the table, in their order. */
export const listCascades = (recorders: Recorders, table: ResourceTable): Cascade[] =>
  recorders.has(getTableName(table)) ? listDependent(recorders, table, '= $1', [table]) : []
