/** Reads the indexes and foreign keys of tables. */
import { getRowParts } from '@resource-api/database/key'
import { getTableConfig, type PgTable } from 'drizzle-orm/pg-core'
import type { ResourceDefinition } from '../definition.ts'
import type { ResourceTable } from '../resource-table.ts'
import { createToMembers } from './row-content.ts'

/** Returns the columns of each index over all rows of a table; undefined in place of an expression. */
export const getIndexes = (table: PgTable): (string | undefined)[][] =>
  getTableConfig(table)
    .indexes.filter(({ config }) => !config.where)
    .map(({ config }) => config.columns.map((column) => ('name' in column ? column.name : undefined)))

/** Returns the members in which no two rows are alike, apart from an id that the service makes itself. */
export function getUniqueColumns(table: ResourceTable): ReadonlySet<string> {
  const { indexes, columns } = getTableConfig(table)
  const { key } = getRowParts(table)
  const unique = indexes.flatMap(({ config }) => {
    const [column, another] = config.columns
    const isUnique = config.unique && !config.where && !another && column && 'name' in column
    return isUnique ? [column.name] : []
  })
  const names = columns
    .filter(({ notNull, name }) => notNull && unique.includes(name))
    .map(({ name }) => name)
  const ofKey = key.madeBy === 'client' && !key.split ? ['id'] : []
  return new Set([...ofKey, ...createToMembers(table)(names)])
}

/**
 * Returns the members of unique indexes and constraints to which foreign keys can refer: of whole columns, over all rows.
 * For an UPDATE that changes one of them, PostgreSQL takes the lock of a deletion.
 */
export function getKeyColumns(table: PgTable): ReadonlySet<string> {
  const { columns, indexes, uniqueConstraints } = getTableConfig(table)
  const ofIndexes = indexes.flatMap(({ config }) => {
    const names = config.columns.map((column) => ('name' in column ? column.name : undefined))
    const isKey = config.unique && !config.where && names.every((name) => name !== undefined)
    return isKey ? names.filter((name) => name !== undefined) : []
  })
  const ofConstraints = uniqueConstraints.flatMap((each) => each.columns.map(({ name }) => name))
  const ofColumns = columns.filter(({ isUnique }) => isUnique).map(({ name }) => name)
  return new Set(createToMembers(table)([...ofIndexes, ...ofConstraints, ...ofColumns]))
}

/** A foreign key that has a field of a body or of the path. */
interface SentKey {
  fields: readonly string[]
  foreignTable: PgTable
  foreign: readonly string[]
}

/** Returns the foreign keys whose fields a client may send, apart from those that are not to be checked. */
export function listSentKeys(definition: ResourceDefinition): SentKey[] {
  const { table, schemas, parent, uncheckedReferences = [] } = definition
  const sent = [
    ...(parent ? [parent.member] : []),
    ...Object.keys(schemas.create.properties),
    ...Object.keys(schemas.change.properties),
  ]
  const toMembers = createToMembers(table)
  const isSent = (field: string) => sent.includes(field) && !uncheckedReferences.includes(field)
  return getTableConfig(table).foreignKeys.flatMap((key) => {
    const { columns, foreignTable, foreignColumns } = key.reference()
    const fields = toMembers(columns.map(({ name }) => name))
    const foreign = createToMembers(foreignTable)(foreignColumns.map(({ name }) => name))
    return fields.some(isSent) ? [{ fields, foreignTable, foreign }] : []
  })
}
