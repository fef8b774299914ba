/** Reads the indexes, constraints and foreign keys of tables, as they are declared and as the database has them. */
import type { Connection } from '@resource-api/database'
import { getRowParts } from '@resource-api/database/key'
import { isObject } from '@resource-api/database/values'
import { getTableName, is, SQL, sql } from 'drizzle-orm'
import { getTableConfig, PgColumn, type PgTable } from 'drizzle-orm/pg-core'
import type { ResourceDefinition } from '../definition/definition.ts'
import type { Constraint, ResourceTable } from '../definition/resource-table.ts'
import { createToMembers } from './row-content.ts'

/** The constraints of tables that the database has. */
export type Catalog = ReadonlyMap<PgTable, readonly Constraint[]>

/** A table, with the constraints that its database has, if they are known. */
export interface ConstrainedTable {
  table: PgTable
  catalog?: readonly Constraint[]
}

type ConstraintRow = Omit<Constraint, 'columns' | 'isPartial' | 'isKey' | 'isDeferrable' | 'schema'> & {
  owner: string
  schema: string
  column: string | null
  is_partial: boolean
  is_key: boolean
  is_deferrable: boolean
}

const quoteName = (name: string) => `"${name.replaceAll('"', '""')}"`

const toRegclass = (table: PgTable): string => {
  const { name, schema } = getTableConfig(table)
  return `${schema === undefined ? '' : `${quoteName(schema)}.`}${quoteName(name)}`
}

/**
 * A row for each column of each constraint, and one for a constraint without columns. Every role may read these catalogs.
 * The columns inside the expressions of an index are among those that it depends on.
 */
const selectConstraints = (names: readonly string[]) => sql`
  with tables as (
    select named.owner, coalesce(part.relid::oid, named.oid) as oid
    from (select owner, to_regclass(owner)::oid as oid from unnest(${sql.param(names)}::text[]) as owner) as named
    left join lateral pg_partition_tree(named.oid) as part on true
  ), keys as (
    select indrelid as owned, indrelid as relation, indexrelid as id,
      case when indisexclusion then 'exclusion' else 'unique' end as kind, not indimmediate as is_deferrable,
      indpred is not null as is_partial, indisunique and indpred is null and indexprs is null as is_key, indrelid as keyed, indkey::int2[] as columns, indnkeyatts as length
    from pg_index where indisunique or indisexclusion
    union all
    select conrelid, conrelid, oid, case contype when 'c' then 'check' when 'f' then 'foreign key' else 'trigger' end,
      condeferrable, false, false, conrelid, conkey, cardinality(conkey)
    from pg_constraint where contype in ('c', 'f', 't')
    union all
    select confrelid, conrelid, oid, 'reference', condeferrable, false, false, confrelid, confkey, cardinality(confkey)
    from pg_constraint where contype = 'f'
    union all
    select oid, oid, oid, 'row security', false, false, false, oid, null, 0
    from pg_class where relrowsecurity
  )
  select tables.owner, namespace.nspname as schema, class.relname as "table", keys.kind,
    coalesce(named_constraint.conname, index.relname) as name, keys.is_deferrable, keys.is_partial, keys.is_key,
    attribute.attname as column
  from tables join keys on keys.owned = tables.oid
  join pg_class as class on class.oid = keys.relation
  join pg_namespace as namespace on namespace.oid = class.relnamespace
  left join pg_class as index on index.oid = keys.id
  left join pg_constraint as named_constraint
    on named_constraint.oid = keys.id and keys.kind in ('check', 'foreign key', 'trigger', 'reference')
  left join lateral unnest(keys.columns) with ordinality as key (number, position) on key.position <= keys.length
  left join pg_depend as part on key.number = 0 and part.classid = 'pg_class'::regclass and part.objid = keys.id
    and part.refobjid = keys.keyed and part.refobjsubid > 0
  left join pg_attribute as attribute
    on attribute.attrelid = keys.keyed and attribute.attnum = coalesce(part.refobjsubid, nullif(key.number, 0))
  where keys.kind <> 'row security' or row_security_active(tables.oid)
  order by tables.owner, keys.relation, keys.kind, name, key.position, attribute.attnum`

/** Reads the constraints of tables, by one query. */
export async function readCatalog(connection: Connection, tables: readonly PgTable[]): Promise<Catalog> {
  const owners = new Map(tables.map((table) => [toRegclass(table), table]))
  const rows = await connection.execute<ConstraintRow>(selectConstraints([...owners.keys()]))
  const found = new Map<PgTable, (Constraint & { columns: string[] })[]>()
  for (const { owner, column, is_partial, is_key, is_deferrable, ...row } of rows) {
    const table = owners.get(owner)
    if (!table) continue
    const constraints = found.get(table) ?? []
    found.set(table, constraints)
    const { kind, name, schema } = row
    const isSame = (each: Constraint) =>
      each.kind === kind && each.name === name && each.table === row.table && each.schema === schema
    let constraint = constraints.find(isSame)
    if (!constraint) {
      constraint = { ...row, columns: [], isPartial: is_partial, isKey: is_key, isDeferrable: is_deferrable }
      constraints.push(constraint)
    }
    if (column !== null && !constraint.columns.includes(column)) constraint.columns.push(column)
  }
  return found
}

/** Returns the columns that an expression names, other than in raw text. */
export function listColumns(part: unknown): string[] {
  if (is(part, SQL)) return part.queryChunks.flatMap(listColumns)
  if (Array.isArray(part)) return part.flatMap(listColumns)
  return is(part, PgColumn) ? [part.name] : []
}

const toNames = (part: unknown): string[] => {
  if (is(part, SQL)) return listColumns(part)
  return isObject(part) && typeof part.name === 'string' ? [part.name] : []
}

/** Returns the constraints that a table declares. Drizzle knows no exclusion constraints. */
export function listDeclared(table: PgTable): Constraint[] {
  const { checks, columns, foreignKeys, indexes, primaryKeys, uniqueConstraints } = getTableConfig(table)
  const tableName = getTableName(table)
  const declare = (
    kind: Constraint['kind'],
    name: string | undefined,
    parts: readonly unknown[],
    isPartial = false,
  ) => {
    const isKey = kind === 'unique' && !isPartial && parts.every((part) => !is(part, SQL))
    const constraint = { kind, name: name ?? '', table: tableName, columns: parts.flatMap(toNames) }
    return { ...constraint, isPartial, isKey, isDeferrable: false }
  }
  return [
    ...columns.filter(({ primary }) => primary).map((each) => declare('unique', `${tableName}_pkey`, [each])),
    ...primaryKeys.map((key) => declare('unique', key.getName(), key.columns)),
    ...indexes
      .filter(({ config }) => config.unique)
      .map(({ config }) => declare('unique', config.name, config.columns, config.where !== undefined)),
    ...uniqueConstraints.map((each) => declare('unique', each.getName(), each.columns)),
    ...columns.filter(({ isUnique }) => isUnique).map((each) => declare('unique', each.uniqueName, [each])),
    ...checks.map(({ name, value }) => declare('check', name, [value])),
    ...foreignKeys.flatMap((key) => {
      const { columns: own, foreignTable, foreignColumns } = key.reference()
      const foreign = declare('foreign key', key.getName(), own)
      return foreignTable === table
        ? [foreign, declare('reference', key.getName(), foreignColumns)]
        : [foreign]
    }),
  ]
}

/** Returns the constraints of a table: those that it declares, and all that the database has. */
export const listConstraints = ({ table, catalog = [] }: ConstrainedTable): Constraint[] => [
  ...listDeclared(table),
  ...catalog,
]

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
 * Returns the members of unique indexes and constraints to which foreign keys can refer. For an UPDATE that changes one of
 * them, PostgreSQL takes the lock of a deletion.
 */
export const getKeyColumns = (constrained: ConstrainedTable): ReadonlySet<string> =>
  new Set(
    createToMembers(constrained.table)(
      listConstraints(constrained).flatMap(({ columns, isKey }) => (isKey ? columns : [])),
    ),
  )

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
