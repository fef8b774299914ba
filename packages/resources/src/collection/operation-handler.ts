/** Runs an operation: checks the request, and calls its own code, in a transaction if it is idempotent. */
import type { Connection } from '@resource-api/database'
import { apiError } from '@resource-api/http'
import {
  type Actor,
  checkRequest,
  compileSerializer,
  getCredentialRule,
  getLifetime,
  getRule,
  openBody,
  prefixFields,
  requireCredential,
} from '@resource-api/http/internal'
import type { Static, TSchema } from '@sinclair/typebox'
import { and, getTableName, type SQL, sql } from 'drizzle-orm'
import type { PgTable } from 'drizzle-orm/pg-core'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { jsonFormat } from '../idempotency/index.ts'
import type { IdempotencyKey, ResultFormat, WriteResponse } from '../idempotency/stored-responses.ts'
import { getOrigin } from '../outbox/origin.ts'
import type { ChangeContext } from '../outbox/recorder.ts'
import type { Handler } from './handlers.ts'
import { createStoreFinder } from './operations/open-store.ts'
import type { Resource } from './resource.ts'
import type { ResourceTable } from './resource-table.ts'
import { respondWritten } from './response/response-builder.ts'
import { buildExpiryCondition, buildRuleCondition } from './sql/conditions.ts'
import type { Row, Store } from './store.ts'
import { createEnqueue } from './work.ts'

/** Writes in the transaction of a request: rows of resources, and with `changeRows` of the outbox any rows. */
interface OperationStore extends ChangeContext {
  of: Store<Row>['of']
  enqueue: Store<Row>['enqueue']
}

/** @template I whether the operation is idempotent */
interface Call<A, P extends TSchema, Q extends TSchema, B extends TSchema, I> {
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

/** Fastify types a handler by the schema of its route; both come from the same function. */
export type AnyHandler = Handler<{ Querystring: never; Body: never }>

/** A write in parts, for an idempotent operation that does slow work before its transaction. */
interface Plan<Found, Prepared> {
  /** Finds and checks what it writes; `isLocking` in the transaction. */
  find(connection: Connection, isLocking: boolean): Promise<Found>
  prepare(found: Found): Promise<Prepared>
  write(connection: Connection, found: Found, prepared: Prepared | undefined): Promise<unknown>
}

/**
 * What an operation does: `run`, or what `plan` returns, after the request was checked; or `handle`, which checks the request
 * itself and returns a result.
 */
export type Work<A, P extends TSchema, Q extends TSchema, B extends TSchema, I, F, R> =
  | { run(call: Call<A, P, Q, B, I>): Promise<unknown>; plan?: never; handle?: never }
  | { plan(call: Call<A, P, Q, B, false>): Plan<F, R>; run?: never; handle?: never }
  | { handle: AnyHandler; run?: never; plan?: never }

type Resources = ReadonlyMap<PgTable, Resource>

function getActor({ actor }: FastifyRequest): Actor {
  if (!actor) throw apiError('UNAUTHORIZED')
  return actor
}

function buildReadable(resources: Resources, request: FastifyRequest, table: ResourceTable): SQL {
  const resource = resources.get(table)
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

const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

/** Returns the canonical path under which an Idempotency-Key is stored: that of the route, and its decoded parameters. */
function getKeyPath({ params, routeOptions }: FastifyRequest): string {
  // The router has read them from the path.
  const sent = Object.entries(params as Record<string, string>)
  const values = sent.map(([name, value]) => [name, UUID.test(value) ? value.toLowerCase() : value])
  return JSON.stringify([routeOptions.url, values])
}

/** Returns how results are stored: only what the response may show. */
function createFormat(type: string | undefined, schema: TSchema | undefined): ResultFormat<unknown> {
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

interface OperationParts<W> {
  work: W
  /** Of the resource that it responds with. */
  type: string | undefined
  idempotent: boolean
  /** Of a success. */
  status: number
  /** Of the result, or of the members of the resource. */
  schema: TSchema | undefined
}

export function createOperationHandler<A, P extends TSchema, Q extends TSchema, B extends TSchema, I, F, R>(
  { idempotency, outbox, resources }: FastifyInstance,
  { work, type, idempotent, status, schema }: OperationParts<Work<A, P, Q, B, I, F, R>>,
): AnyHandler {
  const { run, plan, handle } = work
  if (handle) return handle
  const byTable: Resources = new Map(resources.map((resource) => [resource.table, resource]))
  const format = createFormat(type, schema)
  const toResult = (returned: unknown) =>
    type === undefined
      ? returned
      : { entity: { type, members: Object(returned) }, meta: { timestamp: new Date().toISOString() } }

  /** Runs in a transaction, once for each Idempotency-Key. */
  const runOnce = async (call: Call<A, P, Q, B, I>, key: IdempotencyKey | undefined) => {
    const { request, reply } = call
    const actor = getActor(request)
    const toWritten = (returned: unknown): WriteResponse => {
      if (reply.sent) throw new Error(`${request.method} ${request.url}: the operation sends its response`)
      const location = reply.getHeader('location')
      return {
        status: reply.statusCode,
        location: typeof location === 'string' ? location : null,
        etag: null,
        result: toResult(returned),
      }
    }
    const write = async (connection: Connection) => {
      const origin = getOrigin(actor, request.id)
      const of = createStoreFinder(byTable, { request, connection, actor, origin })
      const enqueue = createEnqueue(request.server.work, connection)
      const store = { connection, recorders: outbox.recorders, origin, of, enqueue }
      // The store of an idempotent operation.
      return toWritten(await run?.({ ...call, store } as typeof call))
    }
    const options = { format, onQueue: getLifetime(reply.raw).onQueue }
    const planned = plan?.({ ...call, store: undefined })
    const response = planned
      ? await idempotency.run(key, actor, {
          ...options,
          ...planned,
          write: async (...args) => toWritten(await planned.write(...args)),
        })
      : await idempotency.run(key, actor, { ...options, find: async () => undefined, write })
    return respondWritten(request, reply, actor, response)
  }

  const check: Handler = async (request, reply) => {
    // 1. Idempotency-Key (400), query (400), body (422), path (404).
    const key = idempotent
      ? idempotency.readKey(request, getActor(request), getKeyPath(request), [request.body, request.query])
      : undefined
    checkRequest(request)
    const { actor, params, query, routeOptions } = request
    // Of TypeBox, as all schemas of operations.
    const bodySchema = routeOptions.schema?.body as TSchema | undefined
    const { members, prefix } = openBody(bodySchema, Object(request.body), Object(params).id)
    const getReadable = (table: ResourceTable) => buildReadable(byTable, request, table)
    const body = bodySchema ? members : request.body
    const call = { request, reply, actor, params, query, body, getReadable, store: undefined }
    reply.code(status)
    try {
      // 2. Its own code. Validated by the schemas of the operation, by which the call is typed.
      const typed = call as unknown as Call<A, P, Q, B, I>
      return idempotent ? await runOnce(typed, key) : toResult(await run?.(typed))
    } catch (error) {
      throw prefixFields(error, prefix)
    }
  }
  return check
}
