/** Reads the relations that `include` names: one statement for each, whatever the number of rows. */
import type { Connection } from '../../../drizzle/client/types.ts'
import { type Actor, getRule, getScope, requireScope } from '../../access/index.ts'
import type { Entity, Meta } from '../../versioning/representation/types.ts'
import type { CompiledRelation, Resource } from '../compile.ts'
import type { Row } from '../definition.ts'
import { MAX_INCLUDED_BYTES } from '../reply-size.ts'
import type { RelatedRow } from '../sql/related.ts'

/** Rows of a to-many relation that are included for each row, the newest first. */
const MAX_RELATED_ROWS = 20

/** The included relations of some rows. */
export interface Included {
  getRelations(row: Row): Entity['relations']
  meta: Meta
  /** The ids and revisions of all included rows, for the entity tag. */
  tag: string
  /** About how many bytes it adds to the response. */
  bytes: number
}

export const NOTHING_INCLUDED: Included = { getRelations: () => undefined, meta: {}, tag: '', bytes: 0 }

interface IncludeOptions {
  connection: Connection
  rows: readonly Row[]
  actor: Actor
  maxBytes: number
}

function groupByParent(found: readonly RelatedRow[]): Map<string, RelatedRow[]> {
  const groups = new Map<string, RelatedRow[]>()
  for (const row of found) {
    const group = groups.get(row.parent_key)
    if (group) group.push(row)
    else groups.set(row.parent_key, [row])
  }
  return groups
}

async function includeRelation(name: string, relation: CompiledRelation, options: IncludeOptions) {
  const { connection, rows, actor, maxBytes } = options
  const { to, local, many, all } = relation
  const rule = getRule(to.access, 'read', actor)
  // A row whose column is null has no related rows.
  const getKeys = (row: Row) => [row[local]].filter((key) => typeof key === 'string')
  const keys = [...new Set(rows.flatMap(getKeys))]
  // One row more than is included: its presence means that there are more.
  const limit = many ? MAX_RELATED_ROWS + 1 : 1
  const found = await to.select.related(connection, relation, keys, { rule, actor, limit, maxBytes })
  const groups = groupByParent(found)
  const getRelated = (row: Row) => getKeys(row).flatMap((key) => groups.get(key) ?? [])
  const maxRows = all ? Number.POSITIVE_INFINITY : MAX_RELATED_ROWS
  const toEntity = (row: Row): Entity => ({ type: to.name, members: to.mapper(row, actor) })
  const truncated = many
    ? rows.filter((row) => getRelated(row).length > maxRows || getRelated(row).some(({ is_cut }) => is_cut))
    : []
  return {
    name,
    many,
    getEntities(row: Row) {
      const related = getRelated(row)
      const [first] = related
      if (!many) return first ? toEntity(first) : null
      return related
        .slice(0, maxRows)
        .filter(({ is_cut }) => !is_cut)
        .map(toEntity)
    },
    meta: { has_more: truncated.length > 0, truncated: truncated.map(({ id }) => id) },
    bytes: found.reduce((sum, row) => sum + (row.is_cut ? 0 : to.select.estimateRowBytes(row)), 0),
    tag: `${name}:${found.map((row) => `${row.parent_key}/${row.id}/${row.revision}`).join()}`,
  }
}

/**
 * Checks the scopes of the relations, before any row is read.
 * @throws ApiError 403 if the credential lacks the read scope of one
 */
export function requireIncludeScopes(resource: Resource, names: readonly string[], actor: Actor): void {
  for (const name of names) {
    const relation = resource.relations[name]
    if (relation) requireScope(actor, getScope(relation.to.name, 'read'))
  }
}

/** Reads the named relations of some rows. */
export async function include(
  connection: Connection,
  resource: Resource,
  rows: readonly Row[],
  names: readonly string[],
  actor: Actor,
): Promise<Included> {
  if (names.length === 0) return NOTHING_INCLUDED
  const maxBytes = Math.floor(MAX_INCLUDED_BYTES / names.length)
  const found = await Promise.all(
    names.flatMap((name) => {
      const relation = resource.relations[name]
      return relation ? [includeRelation(name, relation, { connection, rows, actor, maxBytes })] : []
    }),
  )
  const many = found.filter((each) => each.many)
  return {
    getRelations(row) {
      const relations: NonNullable<Entity['relations']> = {}
      for (const { name, getEntities } of found) relations[name] = getEntities(row)
      return relations
    },
    meta: many.length > 0 ? { includes: Object.fromEntries(many.map(({ name, meta }) => [name, meta])) } : {},
    tag: found.map(({ tag }) => tag).join(';'),
    bytes: found.reduce((sum, { bytes }) => sum + bytes, 0),
  }
}
