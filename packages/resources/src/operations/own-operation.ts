/** Operations with code of their own: `operation({ access, body, response, run })`. */
import { getCredentialRule, requireCredential } from '@resource-api/api/access'
import type { Actor } from '@resource-api/api/actor'
import { apiError, prefixFields } from '@resource-api/api/errors'
import { getRule } from '@resource-api/api/rules'
import { checkRequest, compileSerializer, openBody } from '@resource-api/api/validation'
import type { Static, TSchema } from '@sinclair/typebox'
import { and, getTableName, type SQL, sql } from 'drizzle-orm'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { AnyHandler } from '../definition/handlers.ts'
import type { Resource } from '../definition/resource.ts'
import type { ResourceTable } from '../definition/resource-table.ts'
import type { Row, Store } from '../definition/store.ts'
import { createEnqueue } from '../definition/work.ts'
import { jsonFormat } from '../idempotency/index.ts'
import type { ResultFormat } from '../idempotency/stored-responses.ts'
import { getCallOrigin } from '../outbox/origin.ts'
import type { ChangeContext } from '../outbox/recorder.ts'
import { buildExpiryCondition, buildRuleCondition } from '../sql/conditions.ts'
import { toBareError } from '../sql/constraint-errors.ts'
import { createStoreFinder } from './open-store.ts'
import type { WriteInput, WriteOperation, WriteScope } from './write-operation.ts'

/** Writes in the transaction of a request: rows of resources, and with `changeRows` of the outbox any rows. */
interface OperationStore extends ChangeContext {
  of: Store<Row>['of']
  enqueue: Store<Row>['enqueue']
}

/** @template I whether the operation is idempotent */
export interface Call<A, P extends TSchema, Q extends TSchema, B extends TSchema, I> {
  request: FastifyRequest
  reply: FastifyReply
  /** The caller; undefined on a public route. */
  actor: A extends 'public' ? undefined : Actor
  params: Static<P>
  query: Static<Q>
  /** The fields of the body, without the envelope of the version. */
  body: Static<B>
  /** The store of an idempotent operation. */
  store: I extends true ? OperationStore : undefined
  /**
   * Returns the condition on rows of the resource with this table that the caller may read.
   * @throws ApiError 403 if the credential lacks the scope of the resource
   */
  getReadable(table: ResourceTable): SQL
}

/** A call without the types of the schemas of its operation. */
interface AnyCall extends Omit<Call<'public', TSchema, TSchema, TSchema, boolean>, 'actor'> {
  actor: Actor | undefined
}

export type Run = (call: AnyCall) => Promise<unknown>

/** What an operation responds with. */
export interface OwnResponse {
  /** The type of the resource; undefined if it is none. */
  type: string | undefined
  /** The status of the success. */
  status: number
  /** The schema of the body, or of the members of the resource. */
  schema: TSchema | undefined
}

function getActor({ actor }: FastifyRequest): Actor {
  if (!actor) throw apiError('UNAUTHORIZED')
  return actor
}

/** Returns all resources by their tables. */
const getResources = ({ server }: FastifyRequest): Resource['resources'] =>
  server.resources[0]?.resources ?? new Map()

function buildReadable(request: FastifyRequest, table: ResourceTable): SQL {
  const resource = getResources(request).get(table)
  if (!resource || resource.hasOwnReaders) {
    throw new Error(`No rule decides who may read rows of ${getTableName(table)}`)
  }
  const actor = getActor(request)
  requireCredential(actor, getCredentialRule(resource, 'read'))
  // Without an operation that reads one row, that of lists decides.
  const rule = getRule(resource.access, resource.access.read ? 'read' : 'list', actor)
  const isAllowed = buildRuleCondition(resource, rule, { getCaller: () => actor.userId })
  return and(isAllowed, buildExpiryCondition(resource)) ?? sql`true`
}

/** Returns the call of a request that was checked, and the path of its fields in the body. */
function openCall(request: FastifyRequest, reply: FastifyReply) {
  const { actor, params, query, routeOptions } = request
  // A schema of TypeBox, as all schemas of operations are.
  const schema = routeOptions.schema?.body as TSchema | undefined
  const { members, prefix } = openBody(schema, Object(request.body), Object(params).id)
  const call: AnyCall = {
    ...{ request, reply, params, query, body: schema ? members : request.body, store: undefined },
    actor: actor ?? undefined,
    getReadable: (table) => buildReadable(request, table),
  }
  return { call, prefix }
}

const toResult = ({ type }: OwnResponse, returned: unknown) =>
  type === undefined
    ? returned
    : { entity: { type, members: Object(returned) }, meta: { timestamp: new Date().toISOString() } }

/** Creates the handler of an operation without a transaction of its own. */
export const createRun =
  (response: OwnResponse, run: Run): AnyHandler =>
  async (request, reply) => {
    // 1. The body and the query (400), the body (422), the path (404).
    checkRequest(request)
    const { call, prefix } = openCall(request, reply)
    reply.code(response.status)
    try {
      // 2. Its own code.
      return toResult(response, await run(call))
    } catch (error) {
      // What a read asks the database is its own fault.
      throw prefixFields(request.method === 'GET' ? error : toBareError(error), prefix)
    }
  }

interface OwnInput extends WriteInput {
  own: AnyCall
}

/** Returns code as the steps of a write, in the transaction of its store. */
export const toWriteOperation = ({ status }: OwnResponse, run: Run): WriteOperation<OwnInput, void> => ({
  isIdempotent: true,

  /** The body and the query (400), the body (422), the path (404). */
  read(call) {
    call.check()
    const { request, reply } = call
    const { call: own, prefix } = openCall(request, reply)
    reply.code(status)
    return { call, prefix, own }
  },

  async find() {},

  /** Its own code. */
  async write(connection, writes) {
    const written: { status: number; returned: unknown }[] = []
    for (const { input } of writes) {
      const { reply, request } = input.call
      const { outbox, work } = request.server
      const of = createStoreFinder(getResources(request), connection, input.call)
      const enqueue = createEnqueue(work, connection)
      const origin = getCallOrigin(input.call)
      const store = { connection, recorders: outbox.recorders, origin, of, enqueue }
      const returned = await run({ ...input.own, store })
      if (reply.sent) throw new Error(`${request.method} ${request.url}: the operation sends its response`)
      written.push({ status: reply.statusCode, returned })
    }
    return written
  },
})

/** Returns how results are stored: only what the response may show. */
function createFormat({ type, schema }: OwnResponse): ResultFormat<unknown> {
  const json = jsonFormat<unknown>()
  const write = schema ? compileSerializer(schema) : json.write
  return {
    read: json.read,
    write(result) {
      if (type === undefined) return write(result)
      const { entity, meta } = Object(result)
      return `{"entity":{"type":"${type}","members":${write(entity.members)}},"meta":${JSON.stringify(meta)}}`
    },
  }
}

/** Returns what the writes of an operation need that belongs to no collection. */
export const createOwnScope = (response: OwnResponse): WriteScope => ({
  readAddress: (request) => ({ actor: getActor(request), id: '', parent: undefined }),
  getKeyContent: ({ body, query }) => [body, query],
  buildResponse(_request, reply, _actor, written) {
    const { returned } = { returned: undefined, ...written }
    const location = reply.getHeader('location')
    return {
      status: written.status,
      location: typeof location === 'string' ? location : null,
      etag: null,
      result: toResult(response, returned),
    }
  },
  format: createFormat(response),
  toSentError: (error, { prefix }) => prefixFields(toBareError(error), prefix),
})
