/** What the checks derive from the definitions of an application. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { CALLER, type Verb, verbs } from '@resource-api/api/rules'
import { getBuiltInName } from '@resource-api/database/application'
import { roles } from '@resource-api/database/roles'
import { type AccessMatrix, getCollectionKey } from '@resource-api/resources/access-matrix'
import {
  type Cells,
  describeOperations,
  listConditionParameters,
  RESTORES,
  type Resource,
  type ResourceDefinition,
} from '@resource-api/resources/internal'
import { getTableName } from 'drizzle-orm'
import { getTableConfig } from 'drizzle-orm/pg-core'
import type { TestApp } from './app.ts'

/** `all`, `none`, or conditions, such as `own or published`. */
export type Cell = string

/** An operation that the checks try for each role and kind of row. */
export type MatrixOperation = Verb | typeof RESTORES

/** The cells of each resource by operation. */
type CheckedCells = Readonly<Record<string, Partial<Record<MatrixOperation, Cells>>>>

/**
 * Returns what clients of a collection rely on: how its list is queried, and the resource of each relation.
 * @throws Error if no resource has the name
 */
export function describeList({ app }: Pick<TestApp, 'app'>, name: string) {
  const resource = app.resources.find((each) => each.name === name)
  if (!resource) throw new Error(`The app has no resource "${name}"`)
  const { filters, ranges = [], sorts, search } = resource
  const conditions = listConditionParameters(resource).map(({ parameter }) => parameter)
  return {
    filters: [...filters, ...conditions],
    ranges,
    sorts: Object.keys(sorts),
    search,
    include: Object.fromEntries(
      Object.entries(resource.relations).map(([field, { to }]) => [field, to.name]),
    ),
  }
}

/** Returns what was declared, and the relations that others have added. */
export const toDefinition = ({ parent, relations, ...resource }: Resource): ResourceDefinition => ({
  ...resource,
  relations: Object.fromEntries(
    Object.entries(relations).map(([name, relation]) => [name, { ...relation, to: relation.to.table }]),
  ),
  ...(parent && { parent: { to: parent.to.name, member: parent.member } }),
})

const readReferences = ({ table }: ResourceDefinition): ReadonlyMap<string, string> =>
  new Map(
    getTableConfig(table).foreignKeys.flatMap((key) => {
      const { columns, foreignTable } = key.reference()
      const [column, another] = columns
      return column && !another ? [[column.name, getTableName(foreignTable)] as const] : []
    }),
  )

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

/** Returns the first place in the source files of a folder that matches, such as `schemas/posts.ts:18`. */
function findSource(folder: string, pattern: RegExp): string {
  if (!existsSync(folder)) return folder
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' })
  for (const name of files.filter((each) => each.endsWith('.ts'))) {
    const text = readFileSync(`${folder}/${name}`, 'utf8')
    const offset = text.search(pattern)
    if (offset !== -1) return `${folder}/${name}:${text.slice(0, offset).split('\n').length}`
  }
  return folder
}

/** Returns the file and the line of the table of a resource. */
export const locateTable = ({ table }: ResourceDefinition) =>
  findSource('drizzle', new RegExp(`pgTable\\(\\s*'${getTableName(table)}'`))

/** Returns the file and the line of the schema with this title. */
export const locateSchema = (title: string | undefined) =>
  findSource('schemas', new RegExp(`title: '${title}'`))

/** Returns the cells of a rule of a matrix. */
const toCells = (rule: AccessMatrix | string | undefined): Cells =>
  // The roles of a promise are compared with those of the definitions.
  typeof rule === 'object' ? (rule as Cells) : {}

/** Returns the cells of a resource: those that are promised, or else those of its definition. */
function getCells(definition: ResourceDefinition, promises: AccessMatrix | undefined): CheckedCells[string] {
  const granted = describeOperations(definition)
  const promised = promises?.[getCollectionKey(definition.name)]
  const tried = [...verbs, RESTORES].filter((operation) => operation in granted)
  return Object.fromEntries(
    tried.map((operation) => [
      operation,
      promises ? toCells(typeof promised === 'object' ? promised[operation] : undefined) : granted[operation],
    ]),
  )
}

/** Returns the conditions of a cell: a row must meet one of them, with all its parts. */
export const getConditions = (cell: Cell): string[][] =>
  cell === 'all' || cell === 'none' ? [] : cell.split(' or ').map((condition) => condition.split(' and '))

/** Returns the field and the value that a part of a condition compares; undefined if it compares the owner. */
export function getComparison(part: string): [field: string, value: string] | undefined {
  if (/^own\b/.test(part)) return undefined
  const [field = '', ...value] = part.split(' ')
  return value.length > 0 ? [field, value.join(' ')] : ['status', part]
}

/** Returns whether a part of a condition is about related rows, which those of the checks do not have. */
const isOfOthers = (part: string) => /^(?:own by )?\w+\./.test(part)

/** Returns whether the rows that a cell allows follow from others. */
export const followsRelations = (cell: Cell): boolean => getConditions(cell).flat().some(isOfOthers)

/** Returns whether a cell of the matrix allows a row; undefined if that follows from related rows. */
export function allowsRow(cell: Cell, row: { own: boolean; [field: string]: unknown }): boolean | undefined {
  if (cell === 'all') return true
  const isMet = (part: string) => {
    const [field, value] = getComparison(part) ?? ['own', true]
    return String(row[field]) === String(value)
  }
  const met = getConditions(cell).filter((parts) => parts.every((part) => isOfOthers(part) || isMet(part)))
  if (met.some((parts) => !parts.some(isOfOthers))) return true
  return met.length > 0 ? undefined : false
}

export type Definitions = ReturnType<typeof readDefinitions>

/**
 * Returns all definitions of an application, and what follows from each.
 * @param promises the access that each resource has to have; by default, that of its definition
 */
export function readDefinitions(definitions: readonly ResourceDefinition[], promises?: AccessMatrix) {
  const find = (name: string) => definitions.find((definition) => definition.name === name)

  /** @throws Error if no resource has the name */
  function getDefinition(name: string): ResourceDefinition {
    const found = find(name)
    if (!found) throw new Error(`No app of this process has a resource "${name}"`)
    return found
  }

  // A map, because each call of getTableConfig builds the configuration again.
  const references = new Map(definitions.map((definition) => [definition.name, readReferences(definition)]))

  /** Returns the tables that columns refer to, by the name of the column. */
  const getReferences = ({ name }: ResourceDefinition): ReadonlyMap<string, string> =>
    references.get(name) ?? new Map()

  return {
    definitions,
    getDefinition,
    getReferences,
    isRegistered: (name: string) => find(name) !== undefined,
    /** Returns the name of the table of a resource. */
    getTable: (name: string) => getTableName(getDefinition(name).table),
    /** Returns the column that holds the owner of a row; undefined if rows have no owner. */
    getOwnerColumn(definition: ResourceDefinition): string | undefined {
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
    },
    /** The access of each resource. That to an event depends on its resource. */
    matrix: Object.fromEntries(
      definitions
        .filter(({ name }) => name !== getBuiltInName('events'))
        .map((definition) => [definition.name, getCells(definition, promises)]),
    ) as CheckedCells,
  }
}
