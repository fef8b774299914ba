/** Views that are declared with Drizzle, in the form of tables: with names and columns, without indexes and keys. */
import { getTableColumns, is } from 'drizzle-orm'
import {
  getMaterializedViewConfig,
  getViewConfig,
  PgColumn,
  PgMaterializedView,
  PgTable,
  PgView,
} from 'drizzle-orm/pg-core'

export type View = PgView | PgMaterializedView

export const isView = (value: unknown): value is View => is(value, PgView) || is(value, PgMaterializedView)

/** Drizzle makes another one at each access. */
const tables = new WeakMap<View, PgTable>()

/** Returns the table by which statements read a view. @throws Error if its columns are not declared */
export function getViewTable(view: View): PgTable {
  const known = tables.get(view)
  if (known) return known
  const { name, selectedFields } = is(view, PgView) ? getViewConfig(view) : getMaterializedViewConfig(view)
  const [column] = Object.values(selectedFields)
  const table = is(column, PgColumn) && is(column.table, PgTable) ? column.table : undefined
  const names = table && Object.keys(getTableColumns(table))
  if (!table || `${names}` !== `${Object.keys(selectedFields)}`)
    throw new Error(
      `The view ${name} does not declare its columns; write pgView('${name}', { id: uuid().notNull(), ... }).as(sql\`...\`)`,
    )
  tables.set(view, table)
  return table
}
