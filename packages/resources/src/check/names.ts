/** Checks the names of a definition that others depend on: paths, parents, sorts, types of clients. */
import { findBuiltIn } from '@resource-api/database/application'
import { getRowParts, getTableKey } from '@resource-api/database/key'
import { getTableName } from 'drizzle-orm'
import type { ResourceDefinition } from '../definition/definition.ts'
import { listSentKeys } from '../sql/table-facts.ts'
import { listBodies } from './examples.ts'

const KEBAB_CASE = /^[a-z][a-z0-9]*(?:-[a-z0-9]+)*$/

/** The segment that names a version: `/v2/users`. */
const VERSION = /^v\d+$/

/**
 * First segments of paths with another meaning, and names that the API promises for what no definition describes. Names of the
 * service's own definitions are not among them: no two resources may have the same name.
 */
const RESERVED = new Set([
  ...['api', 'docs', 'openapi', 'livez', 'readyz', 'metrics', 'mcp', 'account', 'me'],
  ...['tokens', 'secrets', 'batches', 'password-resets', 'email-verifications'],
  // A property of every object, so that records by name seem to have it.
  'constructor',
])

/** Returns whether a text is in kebab-case and names no version. */
export const isResourceName = (name: string): boolean => KEBAB_CASE.test(name) && !VERSION.test(name)

export const isReservedName = (name: string): boolean => RESERVED.has(name)

/** Returns names as a part of a message. */
export const quoteAll = (names: readonly string[]): string =>
  names.map((name) => `"${name}"`).join(', ') || 'none'

/** @param all the definitions of the app */
export function* findNameMistakes(
  definition: ResourceDefinition,
  all: readonly ResourceDefinition[],
): Generator<string> {
  const { name, parent, access, defaultSort, isView, operations, schemas, search, table, verbs } = definition
  const tableName = getTableName(table)
  if (all.filter((each) => each.name === name).length > 1) {
    const builtIn = findBuiltIn(name)
    const advice = `; give the built-in collection another one: \`names: { '${builtIn}': '...' }\` of defineApplication`
    yield `several resources have the name "${name}"${builtIn === undefined ? '' : advice}`
  }
  if (all.filter((each) => getTableKey(each.table) === getTableKey(table)).length > 1)
    yield `several resources are stored in the table "${tableName}"`
  if (!isResourceName(name)) yield 'the name is not in kebab-case, such as "user-profiles"'
  if (isReservedName(name)) yield `the path /${name} is reserved; choose another name`
  if (parent && !all.some((each) => each.name === parent.to))
    yield `its parent "${parent.to}" is not registered`
  for (const [relation, { to }] of Object.entries(definition.relations))
    if (!all.some((each) => each.table === to))
      yield `the relation "${relation}" leads to the table "${getTableName(to)}", of which no resource is registered; register its plugin, or remove the relation`
  const writes = [...verbs, ...Object.keys(operations)].filter((each) => each !== 'list' && each !== 'read')
  if (isView && writes.length > 0) yield `a view is not written; remove ${quoteAll(writes)} from \`access\``
  if (Object.values(access).every((rules) => Object.values(rules).every((rule) => rule === false)))
    yield 'access permits no operation to any role'
  const sorts = Object.keys(definition.sorts)
  const sort = defaultSort?.replace(/^-/, '')
  const { created, searched } = getRowParts(table)
  if (sort !== undefined && ![...sorts, created, 'id'].includes(sort))
    yield `default sort "${sort}" is not one of the sorts; there are ${quoteAll(sorts)}`
  if (search.length > 0 && !searched) yield 'search needs the column "search" of the table'
  for (const schema of ['read', ...listBodies(definition)] as const)
    if (!schemas[schema].title)
      yield `the schema "${schema}" has no title, which names its type in generated clients`
  for (const { fields, foreignTable } of listSentKeys(definition))
    if (fields.length > 1 && all.some((each) => each.table === foreignTable))
      yield `the foreign key of ${quoteAll(fields)} has several columns, which no rule can check; name them in \`uncheckedReferences\`, and check them in an action`
}
