/** The tables of docs/callers/permissions.md and of the documentation page: for each resource, operation and own route, the rows that each role may access. */

import type { CallerRole } from '@resource-api/api/actor'
import { roles } from '@resource-api/database/roles'
import {
  type Cells,
  describeOperations,
  describeRouteAccess,
  isWritten,
  type ResourceDefinition,
} from '@resource-api/resources/internal'
import type { FastifyInstance } from 'fastify'

/** What the tables show of a definition, which its compiled form has too. */
type Shown = Pick<
  ResourceDefinition,
  'access' | 'fields' | 'isRestorable' | 'name' | 'operations' | 'schemas' | 'verbs'
>

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
  const groups = new Map<string, string[]>()
  for (const [operation, cells] of Object.entries(describeOperations(definition))) {
    const text = joinCells(cells, columns)
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
    const cells = joinCells(describeRouteAccess(guards, access), columns)
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
