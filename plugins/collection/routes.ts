/** A card as one Fastify plugin: list, read, create, replace, update, remove, in whichever version's scope it stands. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { validate as isUuid, v7 as uuid } from 'uuid'
import { type AccessWord, type Actor, allows, defineWords, ruleFor, verbs } from '../access.ts'
import { isFresh, lastModified, notModified, readPrecondition, strongTag, weakTag } from '../conditional.ts'
import { apiError } from '../errors.ts'
import { createAjv } from '../formats.ts'
import type { Pagination, Representation } from '../representation/types.ts'
import { createBodyReader, type Mode } from './bodies.ts'
import { createCursors } from './cursor.ts'
import type { AnyCard, Row } from './define.ts'
import { addressOf, linksOf } from './links.ts'
import { describe, inputOf, shapeOf } from './operations.ts'
import { type Included, include, membersOf, selectOf, toTimestamp } from './present.ts'
import { createListReader, createNoQueryReader, createSelectionReader, type ListQuery } from './query.ts'
import { createWrites, type Write } from './write.ts'

/** What the kernel is told by the app. */
export interface CollectionOptions {
  representation: Representation
  /** Signs cursors; the same on every replica. */
  cursorKey: Buffer
  publicUrl: string | undefined
  requireIfMatch: boolean
}

const READ = 'private, no-cache'
const WRITTEN = 'no-store'

type Params = { id?: string; [parent: string]: string | undefined }

const ajv = createAjv()

/** One collection in one version's scope. */
export const collection =
  (card: AnyCard) =>
  async (app: FastifyInstance, options: CollectionOptions): Promise<void> => {
    const { representation, publicUrl } = options
    const { database, refusal } = app
    const select = selectOf(card)
    const writes = createWrites(card, database, refusal)
    const cursors = createCursors(options.cursorKey)
    const readList = createListReader(ajv, card)
    const readSelection = createSelectionReader(ajv, card)
    const readNoQuery = createNoQueryReader(ajv)
    const reader = (mode: Mode) =>
      createBodyReader({
        ajv,
        read: card.schemas.read,
        input: inputOf(card, mode),
        mode,
        check: card.check,
        kept: card.kept,
        identity: ['id', ...(card.parent ? [card.parent.member] : [])],
      })
    const readers = { create: reader('create'), replace: reader('replace'), update: reader('update') }
    // What shapes a representation beside the row: a change of the schema makes every tag new.
    const schemaTag = weakTag(JSON.stringify(representation.schemas.one(shapeOf(card, true))))

    const parentPath = card.parent ? `/${card.parent.to().name}/:${card.parent.member}` : ''
    const collectionUrl = `${parentPath}/${card.name}`
    const memberUrl = `${collectionUrl}/:id`

    const actorOf = (request: FastifyRequest): Actor => {
      if (!request.actor) throw apiError('UNAUTHORIZED')
      return request.actor
    }

    /** An id of a path, `me` being the caller's; what is no UUID names nothing. */
    const idOf = (sent: string | undefined, me: boolean, actor: Actor): string => {
      const id = me && sent === 'me' ? actor.userId : (sent ?? '')
      if (!isUuid(id)) throw apiError('RESOURCE_NOT_FOUND')
      return id.toLowerCase()
    }
    const parentOf = (request: FastifyRequest, actor: Actor): string | undefined =>
      card.parent && idOf((request.params as Params)[card.parent.member], card.parent.to().me === true, actor)
    const memberOf = (request: FastifyRequest, actor: Actor): string =>
      idOf((request.params as Params).id, card.me === true, actor)

    const shapeKey = (request: FastifyRequest, fields: readonly string[] | undefined, included: Included) => {
      const { vendor } = app.addressing.of(request.raw)
      return [schemaTag, representation.version, vendor, fields?.join() ?? '*', included.tag].join('|')
    }
    const plainTag = (request: FastifyRequest, row: Row) =>
      strongTag(row.revision, shapeKey(request, undefined, { of: () => undefined, meta: {}, tag: '' }))

    const ensureParent = async (parent: string | undefined) => {
      if (parent === undefined || !card.parent) return
      const found = await selectOf(card.parent.to()).one(database, parent, { fields: ['id'] })
      if (!found) throw apiError('RESOURCE_NOT_FOUND')
    }

    const list = async (request: FastifyRequest, reply: FastifyReply) => {
      const actor = actorOf(request)
      const parent = parentOf(request, actor)
      const query = readList(request.query as Record<string, unknown>, request.originalUrl)
      const scope = { rule: ruleFor(card.access, 'list', actor), actor, parent }
      const binding = bindingOf(card, query, parent)
      const position = query.cursor === undefined ? undefined : cursors.read(query.cursor, binding)
      const [found, total] = await Promise.all([
        select.page(database, query, { ...scope, position }),
        query.page === undefined ? undefined : select.count(database, query, scope),
      ])
      if (found.length === 0) await ensureParent(parent)
      const rows = found.slice(0, query.limit)
      const last = rows.at(-1)
      const more = found.length > query.limit
      const pagination: Pagination =
        total === undefined || query.page === undefined
          ? {
              cursor: more && last ? cursors.write(select.position(last, query.sorts), binding) : null,
              has_more: more,
            }
          : { page: query.page, limit: query.limit, total, total_pages: Math.ceil(total / query.limit) }
      const included = await include(database, card, rows, query.include, actor)

      const revisions = rows.map(({ id, revision }) => `${id}/${revision}`).join()
      const tag = weakTag(
        [shapeKey(request, query.fields, included), revisions, JSON.stringify(pagination)].join('|'),
      )
      const links = linksOf(
        addressOf(request, publicUrl),
        app.addressing.of(request.raw).query,
        pagination,
        query.limit,
      )
      const before = reply.getHeader('Link')
      reply.headers({ ETag: tag, 'Cache-Control': READ, Link: before ? `${before}, ${links}` : links })
      if (isFresh(request, tag, undefined)) return notModified(reply)
      const entities = rows.map((row) => entityOf(row, query.fields, included))
      return representation.many(entities, pagination, included.meta)
    }

    const entityOf = (row: Row, fields: readonly string[] | undefined, included?: Included) => {
      const relations = included?.of(row)
      return { type: card.name, members: membersOf(card, row, fields), ...(relations ? { relations } : {}) }
    }

    const read = async (request: FastifyRequest, reply: FastifyReply) => {
      const actor = actorOf(request)
      const parent = parentOf(request, actor)
      const id = memberOf(request, actor)
      const { fields, include: names } = readSelection(
        request.query as Record<string, unknown>,
        request.originalUrl,
      )
      const rule = ruleFor(card.access, 'read', actor)
      const row = await select.one(database, id, { fields, also: select.needs(rule, names) })
      if (!row || (card.parent && row[card.parent.member] !== parent)) throw apiError('RESOURCE_NOT_FOUND')
      if (!allows(rule, row, actor)) throw refusal()
      const included = await include(database, card, [row], names, actor)

      const tag = strongTag(row.revision, shapeKey(request, fields, included))
      const updatedAt = names.length === 0 ? toTimestamp(String(row.updated_at)) : undefined
      reply.headers({ ETag: tag, 'Cache-Control': READ })
      if (updatedAt !== undefined) reply.header('Last-Modified', lastModified(updatedAt))
      if (isFresh(request, tag, updatedAt)) return notModified(reply)
      return representation.one(entityOf(row, fields, included), included.meta)
    }

    const writeOf = (request: FastifyRequest, id: string, actor: Actor, required: boolean): Write => ({
      id,
      actor,
      parent: parentOf(request, actor),
      precondition: readPrecondition(request, required),
      tagOf: (row) => plainTag(request, row),
    })

    const written = (request: FastifyRequest, reply: FastifyReply, row: Row) => {
      reply.headers({ ETag: plainTag(request, row), 'Cache-Control': WRITTEN })
      return representation.one(entityOf(row, undefined), {})
    }

    const create = async (request: FastifyRequest, reply: FastifyReply) => {
      const actor = actorOf(request)
      const write = writeOf(request, uuid(), actor, false)
      readNoQuery(request.query as Record<string, unknown>, request.originalUrl)
      const { members, prefix } = representation.body(request.body, card.name, undefined)
      const body = readers.create.read(members, prefix)
      const row = await writes.create(write, { members: body, prefix })
      const { form } = app.addressing.of(request.raw)
      const path = card.parent ? `/${card.parent.to().name}/${write.parent}/${card.name}` : `/${card.name}`
      reply.code(201).header('Location', `${publicUrl ?? ''}${form}${path}/${row.id}`)
      return written(request, reply, row)
    }

    const change = (verb: 'replace' | 'update') => async (request: FastifyRequest, reply: FastifyReply) => {
      const actor = actorOf(request)
      const id = memberOf(request, actor)
      const write = writeOf(request, id, actor, options.requireIfMatch)
      readNoQuery(request.query as Record<string, unknown>, request.originalUrl)
      const { members, prefix } = representation.body(request.body, card.name, id)
      const known = card.parent ? { id, [card.parent.member]: write.parent } : { id }
      const reader = readers[verb]
      const row = await writes[verb](write, { reader, members: reader.read(members, prefix, known), prefix })
      return written(request, reply, row)
    }

    const remove = async (request: FastifyRequest, reply: FastifyReply) => {
      const actor = actorOf(request)
      const id = memberOf(request, actor)
      readNoQuery(request.query as Record<string, unknown>, request.originalUrl)
      await writes.remove(writeOf(request, id, actor, options.requireIfMatch))
      return reply.code(204).header('Cache-Control', WRITTEN).send()
    }

    const operations = {
      list: { method: 'GET', url: collectionUrl, handler: list },
      create: { method: 'POST', url: collectionUrl, handler: create },
      read: { method: 'GET', url: memberUrl, handler: read },
      replace: { method: 'PUT', url: memberUrl, handler: change('replace') },
      update: { method: 'PATCH', url: memberUrl, handler: change('update') },
      remove: { method: 'DELETE', url: memberUrl, handler: remove },
    } as const

    // The kernel reads queries and bodies itself, in the contract's order; Fastify would look at the body first.
    app.setValidatorCompiler(() => () => true)
    defineWords(app, card.name, { access: card.access, collection: card.name })
    for (const verb of verbs) {
      const { method, url, handler } = operations[verb]
      const access: AccessWord = `${card.name}:${verb}`
      app.route({ method, url, handler, config: { access }, schema: describe(card, verb, representation) })
    }
  }

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
