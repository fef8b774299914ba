/** Resolves what definitions say by name, and reads the facts of their tables, once at boot. */
import { getTableColumns } from 'drizzle-orm'
import { getTableConfig, type PgColumn, type PgTable } from 'drizzle-orm/pg-core'
import type { ResourceDefinition } from './definition.ts'
import type { RelationDefinition, ResourceTable } from './resource-table.ts'
import type { VersionNames } from './version-names.ts'

export interface Relation extends Omit<RelationDefinition, 'to'> {
  to: ResolvedResource
}

/** A field of a body or of the path with a foreign key to a resource, whose row the caller must be able to read. */
export interface Reference {
  field: string
  to: ResolvedResource
  /** The column of the other table that the field equals. */
  foreign: string
}

export interface ResolvedResource extends Omit<ResourceDefinition, 'relations' | 'parent'> {
  relations: Readonly<Record<string, Relation>>
  parent?: { to: ResolvedResource; member: string }
  references: readonly Reference[]
  columns: Readonly<Record<string, PgColumn>>
  /** The columns in which no two rows are alike. */
  uniqueColumns: ReadonlySet<string>
  /** The columns of each index over all rows; undefined in place of an expression. */
  indexes: readonly (readonly (string | undefined)[])[]
}

/** A resource as a version of the API has it: see `versions.ts`. */
export interface PublishedResource {
  /** With the names of the definition: for SQL, actions and checks. */
  resource: ResolvedResource
  /** With the names of the version: for bodies, query strings and OpenAPI. */
  published: ResolvedResource
  /** Undefined if the fields of the resource do not differ in the version. */
  names: VersionNames | undefined
}

/** Returns the columns of each index over all rows of a table; undefined in place of an expression. */
export function getIndexes(table: ResourceTable): ResolvedResource['indexes'] {
  return getTableConfig(table)
    .indexes.filter(({ config }) => !config.where)
    .map(({ config }) => config.columns.map((column) => ('name' in column ? column.name : undefined)))
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
  const isSent = (field: string) => sent.includes(field) && !uncheckedReferences.includes(field)
  return getTableConfig(table).foreignKeys.flatMap((key) => {
    const { columns, foreignTable, foreignColumns } = key.reference()
    const fields = columns.map(({ name }) => name)
    return fields.some(isSent)
      ? [{ fields, foreignTable, foreign: foreignColumns.map(({ name }) => name) }]
      : []
  })
}

function getUniqueColumns(table: ResourceTable): ReadonlySet<string> {
  const { indexes, columns } = getTableConfig(table)
  const unique = indexes.flatMap(({ config }) => {
    const [column, another] = config.columns
    const isUnique = config.unique && !config.where && !another && column && 'name' in column
    return isUnique ? [column.name] : []
  })
  return new Set(
    columns.filter(({ notNull, name }) => notNull && unique.includes(name)).map(({ name }) => name),
  )
}

/** Resolves definitions, which `check/` has checked, to resources that refer to each other. */
export function resolveResources(definitions: readonly ResourceDefinition[]): ResolvedResource[] {
  const resources = new Map<string, ResolvedResource>()
  const get = (name: string): ResolvedResource => {
    const found = resources.get(name)
    if (!found) throw new Error(`There is no resource "${name}"`)
    return found
  }
  for (const { relations: _relations, parent: _parent, ...definition } of definitions) {
    const { table } = definition
    resources.set(definition.name, {
      ...definition,
      relations: {},
      references: [],
      columns: getTableColumns(table),
      uniqueColumns: getUniqueColumns(table),
      indexes: getIndexes(table),
    })
  }
  const byTable = new Map<PgTable, ResolvedResource>(
    [...resources.values()].map((resource) => [resource.table, resource]),
  )
  return definitions.map((definition) => {
    const { name, relations, parent } = definition
    const resource = get(name)
    resource.references = listSentKeys(definition).flatMap(({ fields, foreignTable, foreign }) => {
      const to = byTable.get(foreignTable)
      const [[field], [column]] = [fields, foreign]
      return to && field && column ? [{ field, to, foreign: column }] : []
    })
    resource.relations = Object.fromEntries(
      Object.entries(relations).flatMap(([field, relation]) => {
        const to = byTable.get(relation.to)
        return to ? [[field, { ...relation, to }]] : []
      }),
    )
    if (parent) resource.parent = { ...parent, to: get(parent.to) }
    return resource
  })
}
