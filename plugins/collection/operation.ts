/**
 * `operation()` returns the options of a route, for Fastify: `app.get('/reports/sales', operation({ access, response, run }))`.
 * Every route of the API has them: those of collections are made by `routes.ts`.
 */
import { type Static, type TObject, type TSchema, Type } from '@sinclair/typebox'
import { and, getTableName, type SQL, sql } from 'drizzle-orm'
import type { PgTable } from 'drizzle-orm/pg-core'
import type {
  FastifyContextConfig,
  FastifyInstance,
  FastifyReply,
  FastifyRequest,
  FastifySchema,
  RouteOptions,
  RouteShorthandOptionsWithHandler,
} from 'fastify'
import fp from 'fastify-plugin'
import type { Connection } from '../../drizzle/client/types.ts'
import { roles } from '../../schemas/roles.ts'
import type { Actor } from '../access/actor.ts'
import { getCredentialRule, type RouteAccess, requireCredential, toGuard } from '../access/guards.ts'
import { getRule } from '../access/rules.ts'
import { getIncludingScope } from '../access/scopes.ts'
import { getLifetime } from '../admission/request-lifetime.ts'
import { apiError, prefixFields } from '../errors/index.ts'
import type { IdempotencyKey, ResultFormat, WriteResponse } from '../idempotency/stored-responses.ts'
import { commonFailures, readResponse } from '../openapi/operation.ts'
import { getOrigin } from '../outbox/origin.ts'
import type { ChangeContext } from '../outbox/recorder.ts'
import { checkRequest, compileSerializer } from '../validation/index.ts'
import { openBody } from '../validation/schema-functions.ts'
import { toFieldsSchema, toResultSchema } from '../versioning/result.ts'
import type { Handler } from './handlers.ts'
import { describeRule } from './openapi/operations.ts'
import { idempotencyKey } from './openapi/parameters.ts'
import { recordingWriter } from './operations/context.ts'
import { createStoreFinder } from './operations/open-store.ts'
import type { Resource } from './resource.ts'
import type { ResourceTable } from './resource-table.ts'
import { respondWritten } from './response/response-builder.ts'
import { buildExpiryCondition, buildRuleCondition } from './sql/conditions.ts'
import type { Row, Store } from './store.ts'

/** Writes in the transaction of a request: rows of resources, and with `changeRows` of the outbox any rows. */
export interface OperationStore extends ChangeContext {
  of: Store<Row>['of']
}

interface Call<A, P extends TSchema, Q extends TSchema, B extends TSchema, I> {
  request: FastifyRequest
  reply: FastifyReply
  /** The caller; undefined on a public route. */
  actor: A extends 'public' ? undefined : Actor
  params: Static<P>
  query: Static<Q>
  /** The fields of the body, without the envelope of the version. */
  body: Static<B>
  /** The store of an operation with `idempotent`. */
  store: I extends true ? OperationStore : undefined
  /**
   * Returns the condition on rows of the resource with this table that the caller may read.
   * @throws ApiError 403 if the credential lacks the scope of the resource
   */
  getReadable(table: ResourceTable): SQL
}

interface Parts<A, P extends TSchema, Q extends TSchema, B extends TSchema, I>
  extends Omit<FastifySchema, 'body' | 'params' | 'querystring' | 'headers' | 'response'> {
  /** Who may call it: 'public', 'authenticated', as an operation of a collection, or roles and a scope. */
  access: A
  params?: P
  querystring?: Q
  headers?: TObject
  body?: B
  /** The schemas of responses by their status. The first one is that of a success. */
  response?: Readonly<Record<number, unknown>>
  /**
   * The type of the resource that it responds with: `run` returns the members, and the body has the fields. The version puts
   * both into its envelope. Without it, they have none.
   */
  type?: string
  /**
   * Whether it runs in one transaction, that of `store`, and once for each Idempotency-Key. For POST and PATCH. Its result is
   * stored: it must have no secrets.
   */
  idempotent?: I
  /** Whether it leaves the slot of the caller's concurrency to the requests that it makes itself. */
  leavesSlot?: boolean
}

/** Fastify types a handler by the schema of its route; both come from the same function. */
type AnyHandler = Handler<{ Querystring: never; Body: never }>

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
type Work<A, P extends TSchema, Q extends TSchema, B extends TSchema, I, F, R> =
  | { run(call: Call<A, P, Q, B, I>): Promise<unknown>; plan?: never; handle?: never }
  | { plan(call: Call<A, P, Q, B, false>): Plan<F, R>; run?: never; handle?: never }
  | { handle: AnyHandler; run?: never; plan?: never }

/** An operation that Fastify has not registered yet. */
export interface Operation {
  isIdempotent: boolean
  leavesSlot: boolean
  /** Creates the handler in a scope. */
  createHandle(app: FastifyInstance): AnyHandler
}

declare module 'fastify' {
  interface FastifyContextConfig {
    operation?: Operation
  }
}

/** Returns route options that the scope of a version completes. */
export const toRouteOptions = (
  config: FastifyContextConfig,
  schema?: FastifySchema,
): RouteShorthandOptionsWithHandler => ({
  config,
  ...(schema && { schema }),
  // The handlers call `checkRequest`, which throws the validation error.
  attachValidation: true,
  handler: ({ routeOptions }) => {
    throw new Error(`The route ${routeOptions.url} is outside the scope of a version`)
  },
})

/** The parts of a route that its scope completes. */
interface Completed {
  schema?: FastifySchema
  config?: FastifyContextConfig
  handle: AnyHandler
  leavesSlot?: boolean
}

/** Completes a route: it holds a slot of the caller's concurrency, and a write records that the user has written. */
export function completeRoute(
  { concurrency, database }: FastifyInstance,
  route: RouteOptions,
  { schema, config, handle, leavesSlot = false }: Completed,
): void {
  const isRead = route.method === 'GET' || route.method === 'HEAD'
  if (schema) route.schema = schema
  Object.assign(route.config ?? {}, config)
  const recorded = isRead ? handle : recordingWriter(database, handle)
  const held = leavesSlot ? recorded : concurrency.holdDuring(recorded)
  route.handler = held as unknown as RouteOptions['handler']
}

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
export function getKeyPath({ params, routeOptions }: FastifyRequest): string {
  // The router has read them from the path.
  const sent = Object.entries(params as Record<string, string>)
  const values = sent.map(([name, value]) => [name, UUID.test(value) ? value.toLowerCase() : value])
  return JSON.stringify([routeOptions.url, values])
}

/** Returns what must be the same for an Idempotency-Key: the body, and the parameters of the query that the route declares. */
function getKeyContent({ body, query, routeOptions }: FastifyRequest): unknown {
  // Fastify accepts any schema; those of routes are of TypeBox.
  const { properties } = (routeOptions.schema?.querystring ?? {}) as Partial<TObject>
  if (!properties) return body
  // The parser of queries returns an object.
  const sent = Object.entries(query as Record<string, unknown>)
  return [body, Object.fromEntries(sent.filter(([name]) => name in properties))]
}

/** Returns the schema of a successful response, with the resource of the type in it. */
function toResponse(status: string, response: unknown, type: string | undefined, operationId: string) {
  const plain = readResponse(status, response, operationId)
  const content = plain.content?.['application/json']
  if (type === undefined || !content || !status.startsWith('2')) return response
  // The members of a resource are those of an object.
  const schema = toResultSchema({ type, members: content.schema as TObject, selectable: false })
  const examples = Object.entries(content.examples ?? {}).map(([name, { value, ...each }]) => [
    name,
    { ...each, value: { entity: { type, members: Object(value) } } },
  ])
  return { ...plain, content: { 'application/json': { schema, examples: Object.fromEntries(examples) } } }
}

/**
 * Returns the options of a route. What its schema does not say has the defaults of the documents; its access, and the
 * Idempotency-Key, are described from the parts.
 */
export function operation<
  const A extends RouteAccess,
  P extends TSchema = TSchema,
  Q extends TSchema = TSchema,
  B extends TSchema = TSchema,
  const I extends boolean = false,
  F = unknown,
  R = unknown,
>(options: Parts<A, P, Q, B, I> & Work<A, P, Q, B, I, F, R>): RouteShorthandOptionsWithHandler {
  const { access, type, idempotent = false, leavesSlot = false, response = {}, body, ...work } = options
  const { run, plan, handle, ...others } = work
  const { operationId = type ?? '', params } = others
  const responses = Object.entries(response).map(([status, each]) => [
    status,
    toResponse(status, each, type, operationId),
  ])
  const [successStatus = 200] = Object.keys(response).map(Number)
  const plain: TSchema | undefined =
    successStatus in response
      ? readResponse(String(successStatus), response[successStatus], operationId).content?.[
          'application/json'
        ].schema
      : undefined

  const serialize = plain ? compileSerializer(plain) : (result: unknown) => JSON.stringify(result) ?? ''
  /** Only what the response may show is stored. */
  const format: ResultFormat<unknown> = {
    write(result) {
      if (type === undefined) return serialize(result)
      const { entity, meta } = Object(result)
      return `{"entity":{"type":"${type}","members":${serialize(entity.members)}},"meta":${JSON.stringify(meta)}}`
    },
    read: (text) => text && JSON.parse(text),
  }
  const toResult = (returned: unknown) =>
    type === undefined
      ? returned
      : { entity: { type, members: Object(returned) }, meta: { timestamp: new Date().toISOString() } }

  const createHandle = (app: FastifyInstance): AnyHandler => {
    if (handle) return handle
    const { idempotency, outbox, resources } = app
    const byTable: Resources = new Map(resources.map((resource) => [resource.table, resource]))

    /** Runs in a transaction, once for each Idempotency-Key. */
    const runOnce = async (call: Call<A, P, Q, B, I>, key: IdempotencyKey | undefined) => {
      const { request, reply } = call
      const actor = getActor(request)
      const toResponse = (returned: unknown): WriteResponse => {
        if (reply.sent) throw new Error(`${request.method} ${request.url}: the operation sends its response`)
        const location = reply.getHeader('location')
        return {
          status: reply.statusCode,
          location: typeof location === 'string' ? location : null,
          etag: null,
          result: toResult(returned),
        }
      }
      const options = { format, onQueue: getLifetime(reply.raw).onQueue }
      const write = async (connection: Connection) => {
        const origin = getOrigin(actor, request.id)
        const of = createStoreFinder(byTable, { request, connection, actor, origin })
        const store = { connection, recorders: outbox.recorders, origin, of }
        return toResponse(await run?.({ ...call, store } as typeof call))
      }
      const planned = plan?.({ ...call, store: undefined })
      const response = planned
        ? await idempotency.run(key, actor, {
            ...options,
            ...planned,
            write: async (...args) => toResponse(await planned.write(...args)),
          })
        : await idempotency.run(key, actor, { ...options, find: async () => undefined, write })
      return respondWritten(request, reply, actor, response)
    }

    const check: Handler = async (request, reply) => {
      const { params } = request
      const key = idempotent
        ? idempotency.readKey(request, getActor(request), getKeyPath(request), getKeyContent(request))
        : undefined
      checkRequest(request)
      // Of TypeBox, as all schemas of operations.
      const sentBy = request.routeOptions.schema?.body as TSchema | undefined
      const { members, prefix } = openBody(sentBy, Object(request.body), Object(params).id)
      const getReadable = (table: ResourceTable) => buildReadable(byTable, request, table)
      // Validated by the schemas of the operation, by which the call is typed.
      const call = {
        ...{ request, reply, params, getReadable, store: undefined },
        actor: request.actor,
        query: request.query,
        body: sentBy ? members : request.body,
      } as unknown as Call<A, P, Q, B, I>
      reply.code(successStatus)
      try {
        return idempotent ? await runOnce(call, key) : toResult(await run?.(call))
      } catch (error) {
        throw prefixFields(error, prefix)
      }
    }
    return check
  }

  return toRouteOptions(
    { access, operation: { isIdempotent: idempotent, leavesSlot, createHandle } },
    {
      ...others,
      ...(body && {
        body:
          type === undefined
            ? body
            : toFieldsSchema(body, { type, addressed: params?.properties?.id !== undefined }),
      }),
      ...(responses.length > 0 && { response: Object.fromEntries(responses) }),
    },
  )
}

/** Describes in the documents what the access of an operation requires, and the Idempotency-Key that it honors. */
function describeOperation(app: FastifyInstance, route: RouteOptions, isIdempotent: boolean): FastifySchema {
  const { access } = route.config ?? {}
  // Fastify accepts any schema; those of routes are of TypeBox.
  const schema = (route.schema ?? {}) as { headers?: TObject; params?: unknown } & FastifySchema
  const headers = isIdempotent && {
    headers: Type.Object({ ...schema.headers?.properties, ...idempotencyKey }),
    failures: schema.failures ?? [
      ...[...commonFailures, 409, 413, 415, 422],
      ...(schema.params === undefined ? [] : [404]),
    ],
  }
  const guard = access === undefined || schema.security ? undefined : toGuard(app.guards, access)
  if (!guard) return { ...schema, ...headers }
  const { credential, rules } = guard
  const including = credential === null ? undefined : getIncludingScope(credential)
  const needed =
    credential === null
      ? 'Requires a Bearer token; API keys are not accepted.'
      : `An API key needs the scope \`${credential}\`${
          including !== undefined && app.scopes.has(including)
            ? ` or \`${including}\`, which includes it`
            : ''
        }.`
  const byRole = roles.toReversed().map((role) => `${role}: ${describeRule(rules[role])}`)
  const text = `${needed} By role: ${byRole.join('; ')}.`
  return {
    ...schema,
    description: schema.description === undefined ? text : `${schema.description}\n\n${text}`,
    ...(credential === null
      ? { security: [{ bearer: [] }] }
      : { security: [{ apiKey: [] }, { bearer: [] }], 'x-required-scopes': [credential] }),
    ...headers,
  }
}

/** Completes the operations of a scope. */
export const operations = fp(
  async (app: FastifyInstance) => {
    app.addHook('onRoute', (route) => {
      const { operation: found, collectionRoute, allow } = route.config ?? {}
      const { method, routePath, url } = route
      // Those of collections are completed by their own plugin; other methods of a path are 405.
      if (collectionRoute || allow !== undefined) return
      if (!found)
        throw new Error(`${method} ${url}: write app.get('${routePath}', operation({ access, run }))`)
      if (found.isIdempotent && method !== 'POST' && method !== 'PATCH')
        throw new Error(`${method} ${url}: an idempotent operation is for POST and PATCH`)
      completeRoute(app, route, {
        schema: describeOperation(app, route, found.isIdempotent),
        handle: found.createHandle(app),
        leavesSlot: found.leavesSlot,
      })
    })
  },
  { name: 'operations', dependencies: ['resources'] },
)
