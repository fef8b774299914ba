/** Reads the relations that `include` names: one statement for each, whatever the number of rows. */
import type { Actor } from '@resource-api/api/actor'
import type { Entity, Meta } from '@resource-api/api/results'
import { getRule } from '@resource-api/api/rules'
import type { Connection } from '@resource-api/database'
import type { Resource } from '../definition/resource.ts'
import { getViewTag } from '../definition/role-schemas.ts'
import type { Row } from '../definition/store.ts'
import { MAX_INCLUDED_BYTES } from '../sql/reply-size.ts'

/** Rows of a to-many relation that are included for each row, the newest first. */
const MAX_RELATED_ROWS = 20

type Relations = NonNullable<Entity['relations']>

export interface Included {
  relations: readonly Relations[]
  meta: Meta
  /** The ids and revisions of all included rows, for the entity tag. */
  tag: string
  /** About how many bytes it adds to the response. */
  bytes: number
}

interface Related {
  entities: Entity[]
  isTruncated: boolean
}

interface IncludeScope {
  actor: Actor
  maxBytes: number
}

async function readRelation(
  connection: Connection,
  relation: Resource['relations'][string],
  rows: readonly Row[],
  { actor, maxBytes }: IncludeScope,
) {
  const { to, local, many, all } = relation
  const rule = getRule(to.access, 'read', actor)
  const keys = new Set<string | number>()
  for (const row of rows) {
    const key = row[local]
    // A row whose column is null has no related rows.
    if (typeof key === 'string' || typeof key === 'number') keys.add(key)
  }
  // One row more than is included: its presence means that there are more.
  const limit = many ? MAX_RELATED_ROWS + 1 : 1
  const found = await to.select.related(connection, relation, [...keys], { rule, actor, limit, maxBytes })

  const maxEntities = all ? Number.POSITIVE_INFINITY : MAX_RELATED_ROWS
  const byKey = new Map<unknown, Related>()
  const viewTag = getViewTag(to, actor)
  const tags = viewTag === '' ? [] : [viewTag]
  let bytes = 0
  for (const row of found) {
    const related = byKey.get(row.parent_key) ?? { entities: [], isTruncated: false }
    byKey.set(row.parent_key, related)
    if (row.is_cut || related.entities.length === maxEntities) related.isTruncated = true
    else related.entities.push(to.toEntity(row, actor))
    if (!row.is_cut) bytes += to.select.estimateRowBytes(row)
    tags.push(`${row.parent_key}/${row.id}/${row.revision}`)
  }
  return { local, many, byKey, tag: tags.join(), bytes }
}

/** @param names at least one */
export async function include(
  connection: Connection,
  resource: Resource,
  rows: readonly Row[],
  names: readonly string[],
  actor: Actor,
): Promise<Included> {
  const scope = { actor, maxBytes: Math.floor(MAX_INCLUDED_BYTES / names.length) }
  const found = await Promise.all(
    names.map((name) => {
      const relation = resource.relations[name]
      return relation && readRelation(connection, relation, rows, scope)
    }),
  )
  const included: Included = { relations: rows.map(() => ({})), meta: {}, tag: '', bytes: 0 }
  for (const [i, name] of names.entries()) {
    const relation = found[i]
    if (!relation) continue
    const { local, many, byKey, tag, bytes } = relation
    const truncated: string[] = []
    for (const [j, row] of rows.entries()) {
      const { entities = [], isTruncated } = byKey.get(row[local]) ?? {}
      const related = included.relations[j]
      if (related) related[name] = many ? entities : (entities[0] ?? null)
      if (isTruncated) truncated.push(String(row.id))
    }
    included.tag += `${name}:${tag};`
    included.bytes += bytes
    if (many) {
      included.meta.includes = {
        ...included.meta.includes,
        [name]: { has_more: truncated.length > 0, truncated },
      }
    }
  }
  return included
}
