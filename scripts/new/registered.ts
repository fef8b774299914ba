/** Reads the resources of the service, which a new one may refer to. */
import { userProfiles, users } from '@resource-api/database'
import { getTableConfig } from 'drizzle-orm/pg-core'
import { tableFiles } from '../../drizzle/index.ts'
import type { Rule } from '../../packages/http/src/access/rules.ts'
import type { ResourceDefinition } from '../../packages/resources/src/collection/definition.ts'
import { addInverses } from '../../packages/resources/src/collection/inverses.ts'
import { listDefinitions } from '../../src/resources.ts'

/** The export of a table, and its file in `drizzle`. */
interface TableExport {
  name: string
  file: string
}

export interface Registered {
  /** The name in paths: `user-profiles`. */
  name: string
  /** `UserProfile` */
  singular: string
  /** `UserProfiles` */
  plural: string
  /** Undefined for the tables of credentials and events. */
  table: TableExport | undefined
  isNested: boolean
  parent?: { to: string; member: string } | undefined
  /** The names of the fields. */
  fields: readonly string[]
  filters: readonly string[]
  /** The values of the enums. */
  values?: Readonly<Record<string, readonly string[]>>
  /** The resource of each relation. */
  relations?: Readonly<Record<string, string>>
  /** The resources that its rows refer to. */
  refersTo: readonly string[]
  /** The rows that members may read, and so refer to. Default: all. */
  memberReads?: Rule
}

/** Returns the exported tables to which a new one may refer. */
const listTables = () =>
  [...tableFiles, ['./user-tables.ts', { userProfiles, users }] as const].flatMap(([path, exported]) =>
    Object.entries(exported).map(([name, table]) => ({ name, table, file: path.slice('./'.length) })),
  )

/** Returns all registered resources, those of credentials included. */
export function listRegistered(): Registered[] {
  const tables = listTables()
  const definitions = addInverses(listDefinitions())
  const listReferred = ({ table }: ResourceDefinition) =>
    getTableConfig(table).foreignKeys.flatMap((key) => {
      const { foreignTable } = key.reference()
      return definitions.filter((each) => each.table === foreignTable).map(({ name }) => name)
    })
  return definitions.map((resource) => ({
    name: resource.name,
    singular: resource.singular,
    plural: resource.plural,
    table: tables.find(({ table }) => table === resource.table),
    isNested: resource.parent !== undefined,
    parent: resource.parent,
    refersTo: listReferred(resource),
    fields: Object.keys(resource.schemas.read.properties),
    filters: resource.filters,
    values: Object.fromEntries(
      Object.entries(resource.schemas.read.properties).flatMap(([field, { enum: values }]) =>
        values ? [[field, values.filter((value: unknown) => value !== null)]] : [],
      ),
    ),
    relations: Object.fromEntries(
      Object.entries(resource.relations).flatMap(([relation, { to }]) => {
        const target = definitions.find(({ table }) => table === to)
        return target ? [[relation, target.name]] : []
      }),
    ),
    memberReads: (resource.access.read ?? resource.access.list)?.member ?? false,
  }))
}
