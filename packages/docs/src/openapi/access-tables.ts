/** The tables of docs/callers/permissions.md and of the documentation page: for each resource, operation and own route, the rows that each role may access. */

import { toEveryRole } from '@resource-api/database'
import { type Role, roles } from '@resource-api/database/internal'
import { CALLER } from '@resource-api/http'
import {
  type CallerRole,
  type Condition,
  formatWanted,
  type RoleRules,
  type Rule,
  toGuard,
  type Verb,
} from '@resource-api/http/internal'
import { isWritten, RESTORES, type ResourceDefinition } from '@resource-api/resources/internal'
import type { FastifyInstance } from 'fastify'

/** What the tables show of a definition, which its compiled form has too. */
type Shown = Pick<
  ResourceDefinition,
  'access' | 'fields' | 'isRestorable' | 'name' | 'operations' | 'schemas' | 'verbs'
>

/** The cell of each role, and that of callers without credentials if a rule names them. */
type Cells = Record<Role, string> & { anonymous?: string }

/** The cells by operation, of which restores are the last; one that the resource does not have is absent. */
export type AccessTable = Partial<Record<Verb | typeof RESTORES, Cells>>

/** The field that holds the owner of a row. */
const getOwnerField = (name: string) => (name === 'users' ? 'id' : 'user_id')

/** `own` for rows of the caller, a value alone for a status, otherwise the field and the value. */
function describeCondition(condition: Condition, ownerField: string): string {
  const entries = Object.entries(condition)
  const owners = entries.filter(([, value]) => value === CALLER)
  const others = entries.filter(([, value]) => value !== CALLER)
  return [
    ...owners.map(([field]) => (field === ownerField ? 'own' : `own by ${field}`)).sort(),
    ...others
      .map(([field, value]) => (field === 'status' ? value : `${field} ${formatWanted(value)}`))
      .sort(),
  ].join(' and ')
}

/** Returns the text of a cell: `all`, `none`, or conditions such as `own or published`. */
function describeCell(rule: Rule | undefined, ownerField: string): string {
  if (rule === undefined || rule === false) return 'none'
  if (rule === true) return 'all'
  return rule
    .map((condition) => describeCondition(condition, ownerField))
    .sort()
    .join(' or ')
}

/** Returns the cells of all roles. */
const describeCells = (rules: RoleRules | undefined, name: string): Cells =>
  Object.fromEntries(
    [...roles, ...(rules?.anonymous ? (['anonymous'] as const) : [])].map((role) => [
      role,
      describeCell(rules?.[role], getOwnerField(name)),
    ]),
    // The list has all roles.
  ) as Cells

/** Returns the table of one resource. */
export const buildAccessTable = ({
  name,
  access,
  isRestorable,
  operations,
  verbs: own,
}: Shown): AccessTable => ({
  ...Object.fromEntries(own.map((verb) => [verb, describeCells(access[verb], name)])),
  ...(isRestorable && { [RESTORES]: describeCells(operations[RESTORES]?.access, name) }),
})

/** Returns a Markdown table. */
export const writeTable = (titles: readonly string[], rows: readonly (readonly string[])[]) =>
  [titles, titles.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n')

const joinCells = (cells: Cells, columns: readonly CallerRole[]) =>
  columns.map((role) => cells[role] ?? 'none').join(' | ')

/** Returns the roles of the table, and `anonymous` if a collection can be listed or read without credentials. */
const listColumns = (definitions: readonly Shown[]): readonly CallerRole[] =>
  definitions.some(({ access }) => access.list?.anonymous || access.read?.anonymous)
    ? ['anonymous', ...roles]
    : roles

/** Returns the operations of a resource by the text of their cells, so that operations with the same access share a row. */
function groupOperations(definition: Shown, columns: readonly CallerRole[]): Map<string, string[]> {
  const { name, operations } = definition
  const own = Object.entries(operations).map(([operation, { access }]) => [
    operation,
    describeCells(access, name),
  ])
  const all: Record<string, Cells> = { ...buildAccessTable(definition), ...Object.fromEntries(own) }
  const groups = new Map<string, string[]>()
  for (const [operation, cells] of Object.entries(all)) {
    // ALLOW_SIGNUP decides whether this rule applies.
    const isSignUp = operation === 'create' && cells.anonymous !== undefined
    const text = joinCells(isSignUp ? { ...cells, anonymous: 'sign-up' } : cells, columns)
    groups.set(text, [...(groups.get(text) ?? []), operation])
  }
  return groups
}

/** Returns the rows of the own routes of an app, each once for all versions. */
function listRouteRows(
  { guards, ownRoutes }: Pick<FastifyInstance, 'guards' | 'ownRoutes'>,
  columns: readonly CallerRole[],
): string[][] {
  const rows = new Map<string, string[]>()
  for (const { name, method, url, version, access } of ownRoutes) {
    const route = `\`${method} ${url.replace(`/api/v${version}`, '')}\``
    const rules =
      access === 'public'
        ? { ...toEveryRole(true), anonymous: true }
        : // Only the routes of the collection itself are open.
          { ...toGuard(guards, access)?.rules, anonymous: false }
    const [collection = ''] = typeof access === 'string' ? access.split(':') : []
    const cells = joinCells(describeCells(rules, collection), columns)
    rows.set(`${route} ${cells}`, [name, access === 'public' ? `${route} (public)` : route, cells])
  }
  return [...rows.values()]
}

/** Returns a Markdown table of the fields that not every role may read or write; empty if there are none. */
function formatFieldTable(definitions: readonly Shown[]): string {
  const every = 'every role'
  const rows = definitions.flatMap((definition) =>
    Object.entries(definition.fields ?? {}).flatMap(([field, { read, write = read }]) => {
      if (!write) return []
      const writers = isWritten(definition.schemas, field) ? write.join(', ') || 'no role' : '-'
      return [[definition.name, field, read?.join(', ') ?? every, writers]]
    }),
  )
  if (rows.length === 0) return ''
  return writeTable(['Resource', 'Field', 'Read by', 'Written by'], rows)
}

/**
 * Returns a Markdown table of all resources, with a row for operations that have the same access, and of all own routes.
 * A second table has the fields that not every role may read or write, if there are any.
 * @param app whose own routes it has
 */
export function formatAccessTables(
  definitions: readonly Shown[],
  app?: Pick<FastifyInstance, 'guards' | 'ownRoutes'>,
): string {
  const columns = listColumns(definitions)
  const rows = definitions.flatMap((definition) =>
    [...groupOperations(definition, columns)].map(([cells, own]) => [definition.name, own.join(', '), cells]),
  )
  const routes = app ? listRouteRows(app, columns) : []
  const table = writeTable(['Resource', 'Operation', ...columns], [...rows, ...routes])
  return [table, formatFieldTable(definitions)].filter((each) => each !== '').join('\n\n')
}
