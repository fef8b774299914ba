/** The registered definitions, and what tests of all resources derive from them. */
import { readdirSync, readFileSync } from 'node:fs'
import { getTableName } from 'drizzle-orm'
import { getTableConfig } from 'drizzle-orm/pg-core'
import { listDefinitions } from '../../../src/resources.ts'
import { roles } from '../../database/src/roles.ts'
import { type AccessTable, buildAccessTable } from '../../docs/src/openapi/access-tables.ts'
import type { CallerRole } from '../../http/src/access/actor.ts'
import { CALLER, verbs } from '../../http/src/access/rules.ts'
import type { ResourceDefinition } from '../../resources/src/collection/definition.ts'
import { listConditionParameters } from '../../resources/src/collection/request/parameters.ts'

const root = new URL('../../../', import.meta.url)

/** All definitions of the app: the resources of `src/app.ts`, credentials, events and webhooks. */
export const definitions: readonly ResourceDefinition[] = listDefinitions()

/** @throws Error if no resource has the name */
export function getDefinition(name: string): ResourceDefinition {
  const found = definitions.find((definition) => definition.name === name)
  if (!found) throw new Error(`No app of this process has a resource "${name}"`)
  return found
}

/** Returns what clients of a collection rely on: how its list is queried, and the resource of each relation. */
export function describeList(name: string) {
  const definition = getDefinition(name)
  const { ranges = [], sorts, search, relations } = definition
  const conditions = listConditionParameters(definition).map(({ parameter }) => parameter)
  const filters = [...definition.filters, ...conditions]
  const include = Object.entries(relations).flatMap(([field, { to }]) => {
    const related = definitions.find(({ table }) => table === to)
    return related ? [[field, related.name]] : []
  })
  return { filters, ranges, sorts: Object.keys(sorts), search, include: Object.fromEntries(include) }
}

export const isRegistered = (name: string) => definitions.some((definition) => definition.name === name)

/** Returns the name of the table of a resource. */
export const getTable = (name: string) => getTableName(getDefinition(name).table)

const readReferences = ({ table }: ResourceDefinition): ReadonlyMap<string, string> =>
  new Map(
    getTableConfig(table).foreignKeys.flatMap((key) => {
      const { columns, foreignTable } = key.reference()
      const [column, another] = columns
      return column && !another ? [[column.name, getTableName(foreignTable)] as const] : []
    }),
  )

// A map, because each call of getTableConfig builds the configuration again.
const references = new Map(definitions.map((definition) => [definition.name, readReferences(definition)]))

/** Returns the tables that columns refer to, by the name of the column. */
export const getReferences = ({ name }: ResourceDefinition): ReadonlyMap<string, string> =>
  references.get(name) ?? new Map()

/** Returns the column that holds the owner of a row; undefined if rows have no owner. */
export function getOwnerColumn(definition: ResourceDefinition): string | undefined {
  for (const verb of verbs) {
    // In the order of the roles: staff can be the owner of rows by another column.
    for (const role of roles) {
      const rule = definition.access[verb]?.[role] ?? false
      if (typeof rule === 'boolean') continue
      for (const condition of rule) {
        const own = Object.keys(condition).find(
          (field) => condition[field] === CALLER && !field.includes('.'),
        )
        if (own !== undefined) return own
      }
    }
  }
  return [...getReferences(definition)].find(([, table]) => table === 'users')?.[0]
}

/** Returns the fields that access rules compare with constants. */
export const getComparedFields = (definition: ResourceDefinition): string[] => {
  const rules = verbs.flatMap((verb) => Object.values(definition.access[verb] ?? {}))
  const conditions = rules.flatMap((rule) => (typeof rule === 'boolean' ? [] : rule))
  const compared = conditions.flatMap((condition) =>
    Object.keys(condition).filter((field) => condition[field] !== CALLER && !field.includes('.')),
  )
  return [...new Set(compared)]
}

/** Returns the values that a field that access rules compare may have: those of an enum or a boolean. */
export function getComparableValues({ schemas }: ResourceDefinition, field: string): readonly string[] {
  const schema = schemas.read.properties[field]
  return schema?.type === 'boolean' ? ['true', 'false'] : (schema?.enum ?? [])
}

/**
 * Returns the first place in the source files of a folder that matches, such as `plugins/posts.ts:18`.
 * @param within the text that the file contains before the match
 */
function findSource(folder: string, pattern: RegExp, within = ''): string {
  for (const name of readdirSync(new URL(folder, root)).filter((each) => each.endsWith('.ts'))) {
    const text = readFileSync(new URL(`${folder}${name}`, root), 'utf8')
    const start = text.indexOf(within)
    if (start === -1) continue
    const offset = text.slice(start).search(pattern)
    if (offset === -1) continue
    return `${folder}${name}:${text.slice(0, start + offset).split('\n').length}`
  }
  return folder
}

/** Returns the file and the line of a property of a collection. */
export const locateDefinition = ({ singular }: ResourceDefinition, property: string) =>
  findSource('plugins/', new RegExp(`\\b${property}:`), `read: ${singular}`)

/** Returns the file and the line of the table of a resource. */
export const locateTable = ({ table }: ResourceDefinition) =>
  findSource('drizzle/', new RegExp(`pgTable\\(\\s*'${getTableName(table)}'`))

/** Returns the file and the line of the schema with this title. */
export const locateSchema = (title: string | undefined) =>
  findSource('schemas/', new RegExp(`title: '${title}'`))

/** `all`, `none`, or conditions, such as `own or published`. */
export type Cell = string

/** An operation of the matrix. */
export type MatrixOperation = keyof AccessTable

type Matrix = Record<string, Partial<Record<MatrixOperation, Partial<Record<CallerRole, Cell>>>>>

const file = new URL('../../../docs/access-matrix.json', import.meta.url)

/** The promises, which do not follow from the definitions. A resource that is not registered is ignored. */
export const promises: Matrix = JSON.parse(readFileSync(file, 'utf8'))

/** Replaces the cells of a resource by those promised: no promise names a role that a project has added. */
function withPromises(built: AccessTable, promised: Matrix[string] = {}): AccessTable {
  const names = [...verbs, 'restores'] as const
  const cells = names.flatMap((verb) => (built[verb] ? [[verb, { ...built[verb], ...promised[verb] }]] : []))
  return Object.fromEntries(cells)
}

export const matrix: Matrix = Object.fromEntries(
  definitions
    // The access to an event depends on its resource: see packages/events/test/events/access.test.ts.
    .filter(({ name }) => name !== 'events')
    .map((definition) => [
      definition.name,
      withPromises(buildAccessTable(definition), promises[definition.name]),
    ]),
)

/** Returns the conditions of a cell: a row must meet one of them, with all its parts. */
export const getConditions = (cell: Cell): string[][] =>
  cell === 'all' || cell === 'none' ? [] : cell.split(' or ').map((condition) => condition.split(' and '))

/** Returns the field and the value that a part of a condition compares; undefined if it compares the owner. */
export function getComparison(part: string): [field: string, value: string] | undefined {
  if (/^own\b/.test(part)) return undefined
  const [field = '', ...value] = part.split(' ')
  return value.length > 0 ? [field, value.join(' ')] : ['status', part]
}

/** Returns whether a part of a condition is about related rows, which those of the tests do not have. */
const isOfOthers = (part: string) => /^(?:own by )?\w+\./.test(part)

/** Returns whether the rows that a cell allows follow from others. */
export const followsRelations = (cell: Cell): boolean => getConditions(cell).flat().some(isOfOthers)

/** Returns whether a cell of the matrix allows a row. */
export function allowsRow(cell: Cell, row: { own: boolean; [field: string]: unknown }): boolean {
  if (cell === 'all') return true
  return getConditions(cell).some((parts) =>
    parts.every((part) => {
      if (isOfOthers(part)) return false
      const [field, value] = getComparison(part) ?? ['own', true]
      return String(row[field]) === String(value)
    }),
  )
}
