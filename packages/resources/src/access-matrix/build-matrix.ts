/** Builds the access matrix of an application from its definitions: all that they grant, to whom, and on which rows. */
import type { CallerRole } from '@resource-api/api/actor'
import type { RoleRules, Rule } from '@resource-api/api/rules'
import { EXPORT_TYPES } from '@resource-api/api/versions'
import type { FastifyInstance } from 'fastify'
import {
  type Cells,
  describeCells,
  describeOperations,
  describeRouteAccess,
} from '../definition/access-cells.ts'
import type { ResourceDefinition } from '../definition/definition.ts'
import { callerRoles, type FieldRule, isWritten, mayRead, mayWrite } from '../definition/fields.ts'

/**
 * What an application grants: `{ leases: { list: { member: 'own' } } }` for the operations of collections, and below the
 * names of SECTIONS all else. Names are sorted, and what no role may do is absent.
 */
export interface AccessMatrix {
  readonly [name: string]: AccessMatrix | string
}

/**
 * The parts of a matrix that are no collection: by collection and field, the roles that read and write it (`fields`) or
 * make a transition of it (`moves`), and the routes of one's own.
 */
const SECTIONS: readonly string[] = ['fields', 'moves', 'routes']

type MatrixDefinition = Pick<
  ResourceDefinition,
  | 'access'
  | 'aggregates'
  | 'fields'
  | 'isRestorable'
  | 'name'
  | 'operations'
  | 'schemas'
  | 'streams'
  | 'transitions'
  | 'verbs'
>

/** Returns the key of a collection: its path if a section has its name. */
export const getCollectionKey = (name: string): string => (SECTIONS.includes(name) ? `/${name}` : name)

const mapParts = (part: object, map: (entries: [string, unknown][]) => [string, unknown][]): AccessMatrix =>
  Object.fromEntries(
    map(Object.entries(part)).map(([name, value]) => [
      name,
      typeof value === 'string' ? value : mapParts(Object(value), map),
    ]),
  )

const isEmpty = (part: unknown): boolean =>
  typeof part === 'object' && part !== null && Object.values(part).every(isEmpty)

/** Returns a part of a matrix without what grants nothing. */
const prune = (part: object): AccessMatrix =>
  mapParts(part, (entries) => entries.filter(([, value]) => !isEmpty(value)))

const sort = (part: object): AccessMatrix =>
  mapParts(part, (entries) => entries.sort(([a], [b]) => (a < b ? -1 : 1)))

/** Exports and aggregates read the rows of the list, with credentials. */
function describeBulkReads({ access, aggregates, name, streams = EXPORT_TYPES }: MatrixDefinition) {
  const cells = describeCells({ ...access.list, anonymous: false }, name)
  return {
    ...(aggregates && { 'list (aggregates)': cells }),
    ...(access.list && streams.length > 0 && { 'list (export)': cells }),
  }
}

const toCells = (isPermitted: (role: CallerRole) => boolean): Cells =>
  Object.fromEntries(callerRoles.flatMap((role) => (isPermitted(role) ? [[role, 'all']] : [])))

/** Returns who may read and write a field, as far as it has a rule. Callers without credentials write nothing. */
const describeField = (rule: FieldRule, isInBodies: boolean) => ({
  ...(rule.read && { read: toCells((role) => mayRead(rule, role)) }),
  ...(isInBodies && { write: toCells((role) => role !== 'anonymous' && mayWrite(rule, role)) }),
})

const describeFields = ({ fields = {}, schemas }: MatrixDefinition) =>
  Object.fromEntries(
    Object.entries<FieldRule | undefined>(fields).flatMap(([field, rule]) =>
      rule?.read || rule?.write ? [[field, describeField(rule, isWritten(schemas, field))]] : [],
    ),
  )

/** Returns the rows that either rule permits. */
function unite(one: Rule = false, other: Rule = false): Rule {
  if (typeof one === 'boolean' || typeof other === 'boolean') return one === true ? one : other || one
  return [...one, ...other]
}

/** Returns who may change a field from each state to each state that may follow it: who may change the row and the field. */
function describeMoves({ access: { replace, update }, fields, name, transitions = {} }: MatrixDefinition) {
  const moves = Object.entries(transitions).map(([field, states]) => {
    const rules: RoleRules = Object.fromEntries(
      callerRoles
        .filter((role) => mayWrite(fields?.[field], role))
        .map((role) => [role, unite(update?.[role], replace?.[role])]),
    )
    const cells = describeCells(rules, name)
    const pairs = Object.entries(states).flatMap(([from, next]) => next.map((to) => `${from} -> ${to}`))
    return [field, Object.fromEntries(pairs.map((pair) => [pair, cells]))]
  })
  return Object.fromEntries(moves)
}

/** Returns the matrix of collections. */
function buildCollectionMatrix(definitions: readonly MatrixDefinition[]): AccessMatrix {
  const collections = definitions.map((each) => [
    getCollectionKey(each.name),
    { ...describeOperations(each), ...describeBulkReads(each) },
  ])
  const moves = definitions.map((each) => [each.name, describeMoves(each)])
  const fields = definitions.flatMap((each) => {
    const described = describeFields(each)
    return Object.keys(described).length === 0 ? [] : [[each.name, described]]
  })
  return sort({
    ...prune({ ...Object.fromEntries(collections), moves: Object.fromEntries(moves) }),
    // A field that no role may read has a rule: without one, every role may.
    ...(fields.length > 0 && { fields: Object.fromEntries(fields) }),
  })
}

/** Returns the access of the routes of one's own, without their version if all versions have the same. */
function describeRoutes({ guards, ownRoutes }: Pick<FastifyInstance, 'guards' | 'ownRoutes'>) {
  const all = ownRoutes.map(({ access, method, url, version }) => ({
    cells: describeRouteAccess(guards, access),
    method,
    path: url.replace(`/api/v${version}`, ''),
    url,
  }))
  return Object.fromEntries(
    all.map(({ cells, method, path, url }) => {
      const others = all.filter((each) => each.method === method && each.path === path)
      const isSame = others.every((each) => JSON.stringify(each.cells) === JSON.stringify(cells))
      return [`${method} ${isSame ? path : url}`, cells]
    }),
  )
}

/** Returns the matrix of an application. Events are not in it: who may read one follows from its resource. */
export function buildAccessMatrix({
  guards,
  ownRoutes,
  resources,
}: Pick<FastifyInstance, 'guards' | 'ownRoutes' | 'resources'>): AccessMatrix {
  const definitions = resources.filter(({ hasOwnReaders }) => !hasOwnReaders)
  const routes = describeRoutes({ guards, ownRoutes })
  return sort({ ...buildCollectionMatrix(definitions), ...prune({ routes }) })
}

/** Returns a matrix with the parts of collections, in the place of those that it has of them. */
export function addCollections(matrix: AccessMatrix, definitions: readonly MatrixDefinition[]): AccessMatrix {
  const added = buildCollectionMatrix(definitions)
  const sections = SECTIONS.flatMap((name) => {
    const part = { ...Object(matrix[name]), ...Object(added[name]) }
    return Object.keys(part).length > 0 ? [[name, part]] : []
  })
  return sort({ ...matrix, ...added, ...Object.fromEntries(sections) })
}
