/** The registered collections with their sorts, and rows to fill them. */
import { getTableColumns } from 'drizzle-orm'
import { resources } from '../../../../src/resources.ts'
import { users as usersCollection } from '../../../accounts/src/users.ts'
import type { Database } from '../../../database/src/client/index.ts'
import type { Json } from '../../../testing/helpers/app.ts'
import { getOwnerColumn, getTable } from '../../../testing/helpers/definitions.ts'
import { createExampleRows } from '../../../testing/helpers/example-rows.ts'
import { insertRows, type Values } from '../../../testing/helpers/rows.ts'
import { toCollections } from '../../../testing/helpers/serve.ts'
import type { ResourceDefinition } from '../../src/definition/definition.ts'
import { getUniqueColumns } from '../../src/sql/table-facts.ts'

export interface Collection {
  name: string
  path: string
  table: string
  /** The sortable fields. */
  sorts: readonly string[]
  /** A filter with several values that selects all rows; empty if the definition has no such filter. */
  everyValue: string
  /** Inserts row `n`, with few distinct values, so that many rows are equal in a sort. @returns its id */
  insert(n: number): Promise<string>
}

const TEXTS = ['b', 'B', 'a"\\', 'é', '\u{10ffff}z', '\u{1f600}', '\uffee', '\u{10ffff}']

const getTime = (n: number) => `2026-01-01T00:00:00.00000${n % 3}Z`

/** Returns a value of a field for row `n`. */
function getValue(schema: Json, field: string, n: number): string | number {
  const { type, format, enum: values, maximum } = schema
  const types = [type].flat()
  if (types.includes('integer')) return [0, 9, 10, maximum][n % 4]
  if (format === 'date') return `2026-01-0${1 + (n % 3)}`
  if (format === 'date-time') return getTime(field === 'updated_at' ? n >> 2 : n)
  return values ? values[n % values.length] : (TEXTS[n % TEXTS.length] ?? '')
}

/** Returns the first filter whose values are an enum. */
const getEnumFilter = ({ filters, schemas }: ResourceDefinition): string | undefined =>
  filters.find((name) => schemas.read.properties[name]?.enum !== undefined)

/** Returns the values of row `n` in fields that need not be unique. Every third is null where it can be. */
function buildValues(definition: ResourceDefinition, n: number): Values {
  const { schemas, sorts, table } = definition
  const columns = getTableColumns(table)
  const sorted = Object.keys(sorts).filter((field) => !getUniqueColumns(table).has(field))
  const filter = getEnumFilter(definition)
  const values = [...sorted, ...(filter ? [filter] : [])].map((field) => {
    const isNull = n % 3 === 0 && columns[field]?.notNull === false
    return [field, isNull ? null : getValue(schemas.read.properties[field], field, n)]
  })
  return Object.fromEntries(values)
}

/** Returns a filter with several values that selects all rows. The owners are those of the rows, at most 50. */
function buildEveryValue(definition: ResourceDefinition, owners: readonly string[]): string {
  const filter = getEnumFilter(definition)
  if (filter !== undefined) return `${filter}=${definition.schemas.read.properties[filter]?.enum.join()}`
  const owner = getOwnerColumn(definition) ?? ''
  return definition.filters.includes(owner) ? `${owner}=${owners.join()}` : ''
}

/** Returns all collections. The rows belong to `owner`, or each to a user if a user can have only one. */
export async function createCollections(database: Database, owner: string): Promise<Collection[]> {
  const { insertRow, getParent } = createExampleRows(database)
  const users = await insertRows(
    database,
    'users',
    Array.from({ length: 60 }, (_, n) => ({ ...buildValues(usersCollection, n), status: 'active' })),
  )
  return Promise.all(
    toCollections(resources).map(async (definition): Promise<Collection> => {
      const { name, parent, sorts } = definition
      const isSole = getUniqueColumns(definition.table).has(getOwnerColumn(definition) ?? '')
      return {
        name,
        path: parent ? `/${parent.to}/${await getParent(name, owner)}/${name}` : `/${name}`,
        table: getTable(name),
        sorts: Object.keys(sorts),
        everyValue: buildEveryValue(definition, isSole ? users.slice(0, 50) : [owner]),
        insert: (n) =>
          insertRow(name, (isSole && users[n % users.length]) || owner, buildValues(definition, n)),
      }
    }),
  )
}
