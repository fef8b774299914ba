/** What a collection's operations say of themselves in OpenAPI: parameters, headers, replies, by status. */
import { type TObject, type TSchema, Type } from '@sinclair/typebox'
import type { FastifySchema } from 'fastify'
import type { Verb } from '../access.ts'
import type { Representation, Shape } from '../representation/types.ts'
import { accepting, type Mode, repeating } from './bodies.ts'
import type { AnyCard } from './define.ts'
import { listQuery, selectionQuery } from './parameters.ts'

/** A resource's shape in a reply; where `selectable`, with the relations that `include` may add. */
export function shapeOf(card: AnyCard, isSelectable: boolean): Shape {
  const shape = { type: card.name, members: card.schemas.read, selectable: isSelectable }
  if (!isSelectable) return shape
  const relations = Object.entries(card.relations).map(([name, { to, many }]) => [
    name,
    { shape: shapeOf(to(), false), many },
  ])
  return { ...shape, relations: Object.fromEntries(relations) }
}

/** The members that a body may hold in each mode. */
export function inputOf(card: AnyCard, mode: Mode): TObject {
  if (mode === 'create') return card.schemas.create
  return mode === 'replace'
    ? repeating(card.schemas.change, card.schemas.read, card.immutable ?? [])
    : card.schemas.change
}

const sentences: Record<Verb, (card: AnyCard) => string> = {
  list: (card) => `List ${words(card.plural)}`,
  read: (card) => `Read ${article(card.singular)}`,
  create: (card) => `Create ${article(card.singular)}`,
  replace: (card) => `Replace ${article(card.singular)}`,
  update: (card) => `Change some members of ${article(card.singular)}`,
  remove: (card) => `Remove ${article(card.singular)}`,
}

/** `UserProfiles` as `user profiles`. */
const words = (name: string) => name.replace(/(?<=[a-z])(?=[A-Z])/g, ' ').toLowerCase()

const article = (name: string) => (/^[AEIO]/.test(name) ? `an ${words(name)}` : `a ${words(name)}`)

/** The field's term for each verb in an operationId. */
const operationNames: Record<Verb, string> = {
  list: 'list',
  read: 'get',
  create: 'create',
  replace: 'replace',
  update: 'update',
  remove: 'delete',
}

const header = (description: string, type: 'string' | 'integer' = 'string') => ({ type, description })

const everyReply = {
  'API-Version': header('The version that answered', 'integer'),
  'X-Request-Id': header('Names the request, in the logs too'),
}
const tag = { ETag: header('For If-Match and If-None-Match') }
const cached = {
  ...tag,
  'Cache-Control': header('private, no-cache'),
  Vary: header('What the reply depends on'),
}

/** Which failures each verb can end in, beside those that every route has. */
const failuresOf: Record<Verb, number[]> = {
  list: [],
  read: [404],
  create: [409, 413, 415, 422],
  replace: [404, 409, 412, 413, 415, 422, 428],
  update: [404, 409, 412, 413, 415, 422, 428],
  remove: [404, 409, 412, 428],
}
const everyFailure = [400, 401, 403, 406, 500, 503]

const reasons: Record<number, string> = {
  400: 'The request cannot be read, or a parameter is invalid',
  401: 'No valid credentials',
  403: 'Not allowed',
  404: 'There is no such resource',
  406: 'Nothing in Accept can be served',
  409: 'The state of this resource, or of another one, does not allow it',
  412: 'The resource has changed since it was read; ETag is the current one',
  413: 'The body is too large',
  415: 'The media type of the body is not supported',
  422: 'Members of the body are invalid',
  428: 'If-Match is required here',
  500: 'Something went wrong on our side',
  503: 'The service is not available right now',
}

const reply = (description: string, headers: object, schema: TSchema | undefined) => ({
  description,
  headers: { ...everyReply, ...headers },
  ...(schema ? { content: { 'application/json': { schema } } } : {}),
})

const tagHeader = (description: string) => Type.Optional(Type.String({ description }))
const readHeaders = {
  'If-None-Match': tagHeader('Entity tags that the client has; 304 where one still holds'),
}
const modifiedHeader = { 'If-Modified-Since': tagHeader('An HTTP date; without If-None-Match') }
const writeHeaders = {
  'If-Match': tagHeader('The entity tag that was read; 412 where the resource has changed since'),
  'If-Unmodified-Since': tagHeader('An HTTP date; without If-Match'),
}

const headersOf: Record<Verb, Record<string, TSchema>> = {
  list: readHeaders,
  read: { ...readHeaders, ...modifiedHeader },
  create: {},
  replace: writeHeaders,
  update: writeHeaders,
  remove: writeHeaders,
}

export interface Operation {
  operationId: string
  schema: FastifySchema
}

/** An operation as OpenAPI tells it. Validation is not Fastify's here: see `routes.ts`. */
export function describe(card: AnyCard, verb: Verb, representation: Representation): FastifySchema {
  const { schemas } = representation
  const mode = verb === 'create' || verb === 'replace' || verb === 'update' ? verb : undefined
  const body = mode && schemas.body(accepting(inputOf(card, mode), mode), card.name)
  const types =
    verb === 'update'
      ? ['application/json', 'application/merge-patch+json', 'application/vnd.api+json']
      : ['application/json', 'application/vnd.api+json']
  const success = {
    list: {
      200: reply(
        'A page',
        { ...cached, Link: header('next, first, prev, last (RFC 8288)') },
        schemas.many(shapeOf(card, true)),
      ),
    },
    read: {
      200: reply(
        'The resource',
        { ...cached, 'Last-Modified': header('When it last changed') },
        schemas.one(shapeOf(card, true)),
      ),
    },
    create: {
      201: reply(
        'Created',
        { ...tag, Location: header('Where it stands') },
        schemas.one(shapeOf(card, false)),
      ),
    },
    replace: { 200: reply('As it is now', tag, schemas.one(shapeOf(card, false))) },
    update: { 200: reply('As it is now', tag, schemas.one(shapeOf(card, false))) },
    remove: { 204: { description: 'Removed', type: 'null' } },
  }[verb]
  const failed = [...everyFailure, ...failuresOf[verb], ...(card.parent ? [404] : [])].map((status) => [
    status,
    reply(reasons[status] ?? '', {}, schemas.error),
  ])
  const unchanged =
    verb === 'list' || verb === 'read' ? { 304: { description: 'Not modified', type: 'null' } } : {}
  const parameters = Object.fromEntries([
    ...(card.parent ? [[card.parent.member, Type.String({ description: "The user's id, or `me`" })]] : []),
    ...(verb === 'list' || verb === 'create'
      ? []
      : [['id', Type.String({ description: card.me ? 'Its id, or `me`' : 'Its id' })]]),
  ])
  const operationName = verb === 'list' ? card.plural : card.singular
  return {
    tags: [card.name],
    operationId: `${operationNames[verb]}${operationName}`,
    summary: sentences[verb](card),
    ...(Object.keys(parameters).length > 0 ? { params: Type.Object(parameters) } : {}),
    ...(verb === 'list' ? { querystring: listQuery(card) } : {}),
    ...(verb === 'read' ? { querystring: selectionQuery(card) } : {}),
    ...(Object.keys(headersOf[verb]).length > 0 ? { headers: Type.Object(headersOf[verb]) } : {}),
    ...(body ? { body: { content: Object.fromEntries(types.map((type) => [type, { schema: body }])) } } : {}),
    response: { ...success, ...unchanged, ...Object.fromEntries(failed) },
  }
}
