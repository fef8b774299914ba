/** List and read: rows, access, tags, 304. */
import type { Ajv } from 'ajv'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Connection } from '../../../drizzle/client/types.ts'
import { type Actor, allows, getRule, narrowRule, type Rule } from '../../access/index.ts'
import { apiError } from '../../errors/index.ts'
import type { Pagination } from '../../versioning/representation/types.ts'
import type { AnyCard } from '../definition.ts'
import { createCursors } from '../request/cursor.ts'
import { createListReader, createSelectionReader, type ListQuery } from '../request/list-query.ts'
import {
  isNotModified,
  lastModified,
  needsPrimary,
  notModified,
  strongTag,
  weakTag,
} from '../request/preconditions.ts'
import {
  actorOf,
  type CollectionOptions,
  countBytes,
  createPlaces,
  createTelling,
  getSerializer,
  queryOf,
} from '../shared.ts'
import { include, requireIncludes, selectOf, toTimestamp } from './include.ts'
import { BYTES_PER_COST, largePages, MAX_BYTES_AT_ONCE, serializeInPieces } from './large-replies.ts'
import { addressOf, linksOf } from './links.ts'
import { readPage } from './page.ts'

const CACHE_CONTROL = 'private, no-cache'

/** What a cursor is bound to. */
const bindingOf = (card: AnyCard, query: ListQuery, parent: string | undefined) =>
  JSON.stringify([
    card.name,
    parent ?? null,
    query.sorts.map(({ name, descending }) => [name, descending]),
    Object.entries(query.filters).sort(),
    query.createdAfter ?? null,
    query.createdBefore ?? null,
    [...query.words].sort(),
  ])

/** Of a list that stands under no other, the query alone says what it is. */
const bindings = new WeakMap<ListQuery, string>()

function rememberedBinding(card: AnyCard, query: ListQuery, parent: string | undefined): string {
  const known = parent === undefined ? bindings.get(query) : undefined
  if (known !== undefined) return known
  const made = bindingOf(card, query, parent)
  if (parent === undefined) bindings.set(query, made)
  return made
}

/** Under a parent it is known whose the rows are. With that left open, PostgreSQL would look for both, and sort them all. */
function listRule(card: AnyCard, actor: Actor, parent: string | undefined): Rule {
  const rule = getRule(card.access, 'list', actor)
  if (!card.parent || parent === undefined) return rule
  return narrowRule(rule, card.parent.member, parent.toLowerCase(), actor)
}

/** The handlers of one collection in one version. */
export function createReads(card: AnyCard, app: FastifyInstance, options: CollectionOptions, ajv: Ajv) {
  const { representation, publicUrl } = options
  const { database, refusal, addressing } = app
  const replicas = options.mayLag ? database.replicas : undefined
  const select = selectOf(card)
  const places = createPlaces(card)
  const telling = createTelling(card, representation)
  const cursors = createCursors(options.cursorKey)
  const readList = createListReader(ajv, card)
  const readSelection = createSelectionReader(ajv, card)

  const list = async (request: FastifyRequest, reply: FastifyReply) => {
    const actor = actorOf(request)
    const query = readList(queryOf(request), request.originalUrl)
    const answer = () => listPage(request, reply, actor, query)
    const isSmall = query.limit < select.chunkSizeOf(query.fields)
    return isSmall ? answer() : largePages.run(actor.userId || request.ip, answer)
  }

  const listPage = async (request: FastifyRequest, reply: FastifyReply, actor: Actor, query: ListQuery) => {
    const { parent } = places.of(request, actor)
    const binding = rememberedBinding(card, query, parent)
    const position = query.cursor === undefined ? undefined : cursors.read(query.cursor, binding)
    requireIncludes(card, query.include, actor)
    places.ensureIds(parent)
    const scope = { rule: listRule(card, actor, parent), actor, parent }
    const from = replicas?.readsOf(actor.userId) ?? database
    const readTotal = () => (query.page === undefined ? undefined : select.count(from, query, scope))
    const reading = readPage(select, from, query, { ...scope, position })
    // A search may have to read every row: its total waits, so that one request takes one core of the database server.
    if (query.words.length > 0) await reading
    const [{ rows, hasMore: more, bytes }, total] = await Promise.all([reading, readTotal()])
    if (rows.length === 0) await places.ensureParent(database, parent)
    const last = rows.at(-1)
    const pagination: Pagination =
      total === undefined || query.page === undefined
        ? {
            cursor: more && last ? cursors.write(select.position(last, query.sorts), binding) : null,
            has_more: more,
          }
        : { page: query.page, limit: query.limit, total, total_pages: Math.ceil(total / query.limit) }
    const included = await include(from, card, rows, query.include, actor)
    const allBytes = bytes + included.bytes
    const counting = countBytes(request, actor, allBytes)
    if (counting) await counting

    const revisions = rows.map(({ id, revision }) => `${id}/${revision}`).join()
    const tag = weakTag(
      [telling.shape(request, query.fields, included), revisions, JSON.stringify(pagination)].join('|'),
    )
    // First, so that a 412 carries none of the headers of a page.
    const isKnown = isNotModified(request, tag)
    const address = addressOf(request, publicUrl)
    const links = linksOf(address, addressing.of(request.raw).query, pagination, query.limit)
    // A version that ends has a link of its own.
    const before = reply.getHeader('link')
    reply.header('etag', tag).header('cache-control', CACHE_CONTROL)
    reply.header('link', before ? `${before}, ${links}` : links)
    if (isKnown) return notModified(reply)
    const entities = rows.map((row) => telling.entity(row, actor, query.fields, included))
    const page = representation.many(entities, pagination, included.meta)
    if (allBytes <= MAX_BYTES_AT_ONCE) return page
    reply.header('content-type', 'application/json; charset=utf-8')
    return serializeInPieces(getSerializer(reply, 200), page)
  }

  const read = async (request: FastifyRequest, reply: FastifyReply) => {
    const actor = actorOf(request)
    const { id, parent } = places.of(request, actor)
    const { fields, include: names } = readSelection(queryOf(request), request.originalUrl)
    requireIncludes(card, names, actor)
    places.ensureIds(id, parent)
    const rule = getRule(card.access, 'read', actor)
    const admit = async (from: Connection) => {
      const row = await select.one(from, id, { fields, also: select.needs(rule, names) })
      if (!row || (card.parent && row[card.parent.member] !== parent)) throw apiError('RESOURCE_NOT_FOUND')
      if (!allows(rule, row, actor)) throw refusal()
      return { row, included: await include(from, card, [row], names, actor) }
    }
    const replica = replicas && !needsPrimary(request) ? replicas.readsOf(actor.userId) : undefined
    // What a replica does not have yet is not refused for it: that word is the primary's.
    const seen = replica && (await admit(replica).catch(() => undefined))
    const { row, included } = seen ?? (await admit(database))
    const rowBytes = select.maxRowBytes < BYTES_PER_COST ? 0 : select.estimateRowBytes(row)
    const counting = countBytes(request, actor, rowBytes + included.bytes)
    if (counting) await counting

    const tag = strongTag(row.revision, telling.shape(request, fields, included))
    const updatedAt = names.length === 0 ? toTimestamp(String(row.updated_at)) : undefined
    reply.header('etag', tag).header('cache-control', CACHE_CONTROL)
    if (updatedAt !== undefined) reply.header('last-modified', lastModified(updatedAt))
    if (isNotModified(request, tag, updatedAt)) return notModified(reply)
    return representation.one(telling.entity(row, actor, fields, included), included.meta)
  }

  return { list, read }
}
