/** Rows as entities: the members asked for, moments in the wire's form, and what was included. */

import type { Connection } from '../../../drizzle/client/types.ts'
import { type Actor, getRule, getScope, requireScope } from '../../access/index.ts'
import type { Entity, Meta } from '../../versioning/representation/types.ts'
import type { AnyCard, Relation, Row } from '../definition.ts'
import { MAX_INCLUDED_BYTES } from '../reply-size.ts'
import { createMapper, type Mapper } from '../sql/row-mapper.ts'
import { createSelect, type Select } from '../sql/select.ts'

const MOST_RELATED = 20

const LONG_MOMENT = '2026-11-21 09:30:00.123456+00'.length
const ZONE = '+00'.length

/** PostgreSQL's text of a moment in UTC, as RFC 3339 with milliseconds. */
export function toTimestamp(moment: string): string {
  const day = moment.slice(0, 10)
  // Nearly all have six digits; PostgreSQL leaves out zeros at the end, and with all six the point.
  if (moment.length === LONG_MOMENT) return `${day}T${moment.slice(11, 23)}Z`
  const fraction = moment.slice(20, -ZONE).slice(0, 3).padEnd(3, '0')
  return `${day}T${moment.slice(11, 19)}.${fraction}Z`
}

const selects = new WeakMap<AnyCard, Select>()

/** The statements of a card, made once. */
export function selectOf(card: AnyCard): Select {
  const known = selects.get(card)
  if (known) return known
  const made = createSelect(card)
  selects.set(card, made)
  return made
}

const mappers = new WeakMap<AnyCard, Mapper>()

const mapperOf = (card: AnyCard): Mapper => {
  const known = mappers.get(card)
  if (known) return known
  const made = createMapper(card.schemas.read, toTimestamp)
  mappers.set(card, made)
  return made
}

/** A row's members as they stand on the wire. */
export function membersOf(
  card: AnyCard,
  row: Row,
  actor: Actor,
  fields: readonly string[] | undefined,
): Entity['members'] {
  const values = card.computed ? { ...row, ...card.computed(row, actor) } : row
  const mapper = mapperOf(card)
  return fields ? mapper.some(values, fields) : mapper.all(values)
}

/** The relations of some rows: what to show beside each, and what shapes the entity tag. */
export interface Included {
  of(row: Row): Entity['relations']
  meta: Meta
  /** The ids and revisions of all that was included. */
  tag: string
  /** About how many bytes it adds to the reply. */
  bytes: number
}

const nothing: Included = { of: () => undefined, meta: {}, tag: '', bytes: 0 }

async function includeOne(
  connection: Connection,
  rows: readonly Row[],
  name: string,
  relation: Relation,
  actor: Actor,
  maxBytes: number,
) {
  const related = relation.to()
  const rule = getRule(related.access, 'read', actor)
  const keys = [...new Set(rows.map((row) => String(row[relation.local])))]
  const limit = relation.many ? MOST_RELATED + 1 : 1
  const select = selectOf(related)
  const found = await select.related(connection, relation, keys, { rule, actor, limit, maxBytes })
  const byKey = new Map<string, Row[]>()
  for (const row of found) {
    const key = String(row.parent_key)
    const mine = byKey.get(key)
    if (mine) mine.push(row)
    else byKey.set(key, [row])
  }
  const most = relation.all ? Number.POSITIVE_INFINITY : MOST_RELATED
  const entity = (row: Row): Entity => ({
    type: related.name,
    members: membersOf(related, row, actor, undefined),
  })
  const isCut = (row: Row) => row.is_cut === true
  const relatedOf = (row: Row) => byKey.get(String(row[relation.local])) ?? []
  const truncated = relation.many
    ? rows.filter((row) => relatedOf(row).length > most || relatedOf(row).some(isCut))
    : []
  return {
    name,
    many: relation.many,
    of(row: Row) {
      const mine = relatedOf(row)
      const [first] = mine
      if (!relation.many) return first ? entity(first) : null
      return mine
        .slice(0, most)
        .filter((each) => !isCut(each))
        .map(entity)
    },
    meta: { has_more: truncated.length > 0, truncated: truncated.map(({ id }) => id) },
    bytes: found.reduce((sum, row) => sum + (isCut(row) ? 0 : select.estimateRowBytes(row)), 0),
    tag: `${name}:${found.map((row) => `${row.parent_key}/${row.id}/${row.revision}`).join()}`,
  }
}

/**
 * Asked before any row is looked for, as every question of scope.
 * @throws ApiError 403 where the credential lacks a relation's read scope
 */
export function requireIncludes(card: AnyCard, names: readonly string[], actor: Actor) {
  for (const name of names) {
    const relation = card.relations[name]
    if (relation) requireScope(actor, getScope(relation.to().name, 'read'))
  }
}

/** Reads what `include` asks for: one statement for each relation, whatever the number of rows. */
export async function include(
  connection: Connection,
  card: AnyCard,
  rows: readonly Row[],
  names: readonly string[],
  actor: Actor,
): Promise<Included> {
  if (names.length === 0) return nothing
  const relations = names.flatMap((name) => {
    const relation = card.relations[name]
    return relation ? [{ name, relation }] : []
  })
  const maxBytes = Math.floor(MAX_INCLUDED_BYTES / relations.length)
  const found = await Promise.all(
    relations.map(({ name, relation }) => includeOne(connection, rows, name, relation, actor, maxBytes)),
  )
  const many = found.filter((each) => each.many)
  return {
    of(row) {
      const relations: NonNullable<Entity['relations']> = {}
      for (const each of found) relations[each.name] = each.of(row)
      return relations
    },
    meta: many.length > 0 ? { includes: Object.fromEntries(many.map(({ name, meta }) => [name, meta])) } : {},
    tag: found.map(({ tag }) => tag).join(';'),
    bytes: found.reduce((sum, each) => sum + each.bytes, 0),
  }
}
