/**
 * Makes declarations equal to what drizzle-kit reads of columns and indexes that exist. It reads no collations, and takes all
 * columns of an index with an expression for expressions, so that `push` would change them each time.
 */
import { getTableName, is, SQL, sql } from 'drizzle-orm'
import { getTableConfig, type Index, IndexBuilder, PgTable } from 'drizzle-orm/pg-core'
import { toCatalogType } from '../schema-check.ts'
import type { DatabaseObjects } from './read-objects.ts'

const COLLATION = ' COLLATE "C"'

export function alignDeclarations(
  declarations: readonly unknown[],
  { collated, expressionIndexes }: Pick<DatabaseObjects, 'collated' | 'expressionIndexes'>,
): void {
  const types = new Map(collated.map(({ table, column, type }) => [`${table}.${column}`, type]))
  for (const table of declarations) {
    if (!is(table, PgTable)) continue
    for (const column of getTableConfig(table).columns) {
      const declared = column.getSQLType()
      const type = types.get(`${getTableName(table)}.${column.name}`)
      if (toCatalogType(declared) === `${type}${COLLATION}`)
        column.getSQLType = () => declared.replace(COLLATION, '')
    }
  }
  alignIndexes(new Set(expressionIndexes))
}

function alignIndexes(names: ReadonlySet<string>): void {
  // Drizzle's types leave out `build`, which makes an index each time that a table is read.
  const prototype: { build?: (table: PgTable) => Index } = IndexBuilder.prototype
  const { build } = prototype
  if (!build) throw new Error('Drizzle builds indexes in another way')
  prototype.build = function buildAligned(table) {
    const index = build.call(this, table)
    const { name = '', columns } = index.config
    if (names.has(name)) index.config.columns = columns.map(toExpression)
    return index
  }
}

type IndexColumn = Index['config']['columns'][number]

/** Returns a column as an expression; one with an order or an operator class as it is, since that would be lost. */
function toExpression(column: IndexColumn): IndexColumn {
  if (is(column, SQL) || !('indexConfig' in column) || column.name === undefined) return column
  const { order, nulls, opClass } = column.indexConfig ?? {}
  const isPlain = order === 'asc' && nulls === 'last' && opClass === undefined
  return isPlain ? sql`${sql.identifier(column.name)}` : column
}
