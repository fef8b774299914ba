/** Create, replace, update, remove: the body and the query read in the contract's order, then the write in its transaction. */
import type { Ajv } from 'ajv'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { newId } from '../../../lib/ids.ts'
import { isAwaited } from '../../../lib/is-awaited.ts'
import type { Actor } from '../../access/index.ts'
import { ApiError, invalidBody } from '../../errors/index.ts'
import { getClientIp } from '../../rate-limit/by-address.ts'
import { isObject, readObject } from '../../versioning/representation/body.ts'
import type { ReadBody } from '../../versioning/representation/types.ts'
import type { AnyCard, Row } from '../definition.ts'
import { inputOf } from '../openapi/operations.ts'
import { type BodyReader, createBodyReader, type Mode } from '../request/body.ts'
import { readPrecondition } from '../request/preconditions.ts'
import { createNoQueryReader } from '../request/query-validation.ts'
import {
  actorOf,
  type CollectionOptions,
  countBytes,
  createPlaces,
  createTelling,
  type Place,
  queryOf,
} from '../shared.ts'
import { createWrites, type Write } from './pipeline.ts'
import { answer, createTell } from './response.ts'

/** The members, or all that is wrong with them and around them at once. */
function readMembers(
  reader: BodyReader,
  { members, prefix, violations }: ReadBody,
  known?: Readonly<Record<string, unknown>>,
) {
  try {
    const body = reader.read(members, prefix, known)
    if (violations.length > 0) throw invalidBody([])
    return body
  } catch (error) {
    if (violations.length === 0 || !(error instanceof ApiError)) throw error
    throw invalidBody([...violations, ...error.violations])
  }
}

/** Members that this caller may not set are read-only to them. */
function withoutWithheld(card: AnyCard, actor: Actor, read: ReadBody): ReadBody {
  const { members, prefix } = read
  const refused = isObject(members) ? (card.withheld?.(actor) ?? []).filter((name) => name in members) : []
  if (refused.length === 0) return read
  const violations = refused.map((name) => ({
    field: `${prefix}${name}`,
    message: 'is read-only',
    code: 'READ_ONLY' as const,
  }))
  return { ...read, violations: [...read.violations, ...violations] }
}

/** The handlers of one collection in one version. */
export function createWriteHandlers(
  card: AnyCard,
  app: FastifyInstance,
  options: CollectionOptions,
  ajv: Ajv,
) {
  const { representation, publicUrl } = options
  const { database, refusal, addressing, passwords, limits, idempotency } = app
  const writes = createWrites(card, database, refusal)
  const places = createPlaces(card)
  const telling = createTelling(card, representation)
  const tell = createTell(telling, representation)
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

  const writeOf = (
    request: FastifyRequest,
    reply: FastifyReply,
    { id, parent }: Place,
    actor: Actor,
    required: boolean,
  ): Write => ({
    id,
    parent,
    actor,
    precondition: readPrecondition(request, required),
    tools: () => ({
      // A sign-up has no user yet: those from one address wait for each other.
      passwords: passwords.for(actor.credential === 'none' ? getClientIp(request) : actor.userId, () =>
        isAwaited(reply),
      ),
      attempt: (account, verify) => limits.confirmPassword(request, actor.userId, account, verify),
    }),
    tagOf: (row) => telling.plainTag(request, row),
  })

  /** The key that the client gave this write, if it did. */
  const attemptOf = (
    request: FastifyRequest,
    actor: Actor,
    { id, parent }: Partial<Place>,
    sent: unknown,
  ) => {
    const path = `/api/v${representation.version}${places.path(parent)}${id === undefined ? '' : `/${id}`}`
    return idempotency.read(request, actor, path, sent)
  }

  const create = async (request: FastifyRequest, reply: FastifyReply) => {
    const actor = actorOf(request)
    const { parent } = places.of(request, actor)
    const sent = readObject(request.body)
    const attempt = attemptOf(request, actor, { parent }, sent)
    readNoQuery(queryOf(request), request.originalUrl)
    const read = representation.body(sent, card.name, undefined)
    const members = readMembers(readers.create, withoutWithheld(card, actor, read))
    places.ensureIds(parent)
    const { form } = addressing.of(request.raw)
    const write = writeOf(request, reply, { id: newId(), parent }, actor, false)
    const telling = {
      attempt,
      tell: (row: Row) =>
        tell(request, reply, 201, row, `${publicUrl ?? ''}${form}${places.path(parent)}/${row.id}`),
    }
    const written = await writes.create(write, telling, { members, prefix: read.prefix })
    const counting = countBytes(request, actor, written.body.length)
    if (counting) await counting
    return answer(reply, written)
  }

  const change = (verb: 'replace' | 'update') => async (request: FastifyRequest, reply: FastifyReply) => {
    const actor = actorOf(request)
    const place = places.of(request, actor)
    const sent = readObject(request.body)
    const attempt = verb === 'update' ? attemptOf(request, actor, place, sent) : undefined
    readNoQuery(queryOf(request), request.originalUrl)
    const read = representation.body(sent, card.name, place.id)
    const known = card.parent ? { id: place.id, [card.parent.member]: place.parent } : { id: place.id }
    const reader = readers[verb]
    const members = readMembers(reader, read, known)
    places.ensureIds(place.id, place.parent)
    const write = writeOf(request, reply, place, actor, options.requireIfMatch)
    const telling = { attempt, tell: (row: Row) => tell(request, reply, 200, row, null) }
    const written = await writes[verb](write, telling, { reader, members, prefix: read.prefix })
    const counting = countBytes(request, actor, written.body.length)
    if (counting) await counting
    return answer(reply, written)
  }

  const remove = async (request: FastifyRequest, reply: FastifyReply) => {
    const actor = actorOf(request)
    const place = places.of(request, actor)
    readNoQuery(queryOf(request), request.originalUrl)
    places.ensureIds(place.id, place.parent)
    await writes.remove(writeOf(request, reply, place, actor, options.requireIfMatch))
    return reply.code(204).header('Cache-Control', 'no-store').send()
  }

  const handlers = { create, replace: change('replace'), update: change('update'), remove }
  const { replicas } = database
  if (!replicas) return handlers
  /** Before it is answered, since the next request may read; and whatever came of it, since that may not be known. */
  const told = <T>(handler: (request: FastifyRequest, reply: FastifyReply) => Promise<T>) => {
    return async (request: FastifyRequest, reply: FastifyReply): Promise<T> => {
      try {
        return await handler(request, reply)
      } finally {
        const { userId, credential } = actorOf(request)
        if (credential !== 'none') await replicas.recentWriters.publish(userId)
      }
    }
  }
  return {
    create: told(create),
    replace: told(handlers.replace),
    update: told(handlers.update),
    remove: told(remove),
  }
}
