/** Reads the indexes of tables over all rows, those of constraints included. */
import { is, SQL } from 'drizzle-orm'
import { getTableConfig, PgDialect, type PgTable } from 'drizzle-orm/pg-core'

const dialect = new PgDialect()

/** Returns an expression as text, without the parentheses that an index needs around it. */
export function formatExpression(expression: SQL): string {
  const text = dialect.sqlToQuery(expression).sql
  return text.startsWith('(') && text.endsWith(')') ? text.slice(1, -1) : text
}

/** Returns the columns and expressions of each index. Those of a unique one end with the id: it has no ties to break. */
export function listIndexes(table: PgTable): (string | undefined)[][] {
  const { columns, indexes, primaryKeys, uniqueConstraints } = getTableConfig(table)
  const keyColumns = columns.filter(({ primary, isUnique }) => primary || isUnique)
  const constraints = [...primaryKeys, ...uniqueConstraints, ...keyColumns.map((key) => ({ columns: [key] }))]
  const ofAllRows = indexes.map(({ config }) => config).filter(({ where }) => !where)
  return [
    ...constraints.map((each) => [...each.columns.map(({ name }) => name), 'id']),
    ...ofAllRows.map(({ columns: keys, unique }) => [
      ...keys.map((key) => (is(key, SQL) ? formatExpression(key) : 'name' in key ? key.name : undefined)),
      ...(unique ? ['id'] : []),
    ]),
  ]
}

/** Returns whether an index begins with these columns and expressions. */
export const hasIndex = (indexes: ReturnType<typeof listIndexes>, start: readonly string[]): boolean =>
  indexes.some((keys) => start.every((key, i) => keys[i] === key))
