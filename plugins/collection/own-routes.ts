/** Routes of one's own beside the resources: their access in the documents, conditions on rows, transactions, idempotency. */
import { type TObject, Type } from '@sinclair/typebox'
import { and, getTableName, type SQL, sql } from 'drizzle-orm'
import type { PgTable } from 'drizzle-orm/pg-core'
import type { FastifyInstance, FastifyPluginAsync, FastifyReply, FastifyRequest, RouteOptions } from 'fastify'
import type { Connection } from '../../drizzle/client/types.ts'
import { roles } from '../../schemas/roles.ts'
import type { Actor } from '../access/actor.ts'
import { getCredentialRule, type RouteAccess, requireCredential, toGuard } from '../access/guards.ts'
import { getRule } from '../access/rules.ts'
import { getIncludingScope } from '../access/scopes.ts'
import { getLifetime } from '../admission/request-lifetime.ts'
import { apiError } from '../errors/index.ts'
import type { StoredResponse } from '../idempotency/stored-responses.ts'
import { commonFailures } from '../openapi/operation.ts'
import { getOrigin } from '../outbox/origin.ts'
import type { ChangeContext } from '../outbox/recorder.ts'
import type { Representation } from '../versioning/representation/types.ts'
import { describeRule } from './openapi/operations.ts'
import { idempotencyKey } from './openapi/parameters.ts'
import { recordingWriter } from './operations/context.ts'
import { createStoreFinder } from './operations/open-store.ts'
import type { Resource } from './resource.ts'
import type { ResourceTable } from './resource-table.ts'
import { sendWritten } from './response/response-builder.ts'
import { buildExpiryCondition, buildRuleCondition } from './sql/conditions.ts'
import type { Row, Store } from './store.ts'

export interface OwnRoutes {
  /** The group of the routes in the documents. */
  name: string
  description: string
  /** Scopes that no resource has, such as `reports:read`, for routes that require them. */
  scopes?: readonly string[]
  /** Registers the routes in the scope of a version. */
  plugin: FastifyPluginAsync
}

/** Returns the scopes that no resource has. */
export const listRouteScopes = (routes: readonly OwnRoutes[]): string[] =>
  routes.flatMap(({ scopes = [] }) => [...scopes])

/** A registered route of one's own. */
interface OwnRoute {
  /** The group in the documents. */
  name: string
  method: string
  /** With the prefix of its version, such as `/api/v1/reports/:id`. */
  url: string
  version: number
  access: RouteAccess
}

/** Writes in the transaction of a request: rows of resources, and with `changeRows` of the outbox any rows. */
export interface RouteStore extends ChangeContext {
  of: Store<Row>['of']
}

declare module 'fastify' {
  interface FastifyContextConfig {
    /**
     * Whether the handler runs in one transaction, that of `request.getStore()`, and once for each Idempotency-Key. For
     * POST and PATCH. It returns the body of its response, which is stored: it must have no secrets.
     */
    isIdempotent?: boolean
  }
  interface FastifyInstance {
    /** All routes of one's own, of all versions. */
    ownRoutes: OwnRoute[]
  }
  interface FastifyRequest {
    /**
     * Returns the condition on rows of the resource with this table that the caller may read.
     * @throws ApiError 403 if the credential lacks the scope of the resource
     */
    getReadable(table: ResourceTable): SQL
    /** Returns the store of a route with `isIdempotent`. */
    getStore(): RouteStore
  }
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

/** Describes in the documents what the access of a plain route requires, and the Idempotency-Key that it honors. */
function describeRoute(app: FastifyInstance, { name }: OwnRoutes, route: RouteOptions): void {
  const { access, isIdempotent = false } = route.config ?? {}
  // Fastify accepts any schema; those of routes are of TypeBox.
  const schema = (route.schema ?? {}) as { headers?: TObject; params?: unknown } & typeof route.schema
  const tags = schema.tags ?? [name]
  const headers = isIdempotent && {
    headers: Type.Object({ ...schema.headers?.properties, ...idempotencyKey }),
    failures: schema.failures ?? [
      ...[...commonFailures, 409, 413, 415, 422],
      ...(schema.params === undefined ? [] : [404]),
    ],
  }
  const guard = access === undefined ? undefined : toGuard(app.guards, access)
  if (!guard) {
    route.schema = { ...schema, tags, ...headers }
    return
  }
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
  route.schema = {
    ...schema,
    tags,
    description: schema.description === undefined ? text : `${schema.description}\n\n${text}`,
    ...(credential === null
      ? { security: [{ bearer: [] }] }
      : { security: [{ apiKey: [] }, { bearer: [] }], 'x-required-scopes': [credential] }),
    ...headers,
  }
}

const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

/** Returns the canonical path under which an Idempotency-Key is stored: that of the route, and its decoded parameters. */
function getKeyPath({ params, routeOptions }: FastifyRequest): string {
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

type Handle = (request: FastifyRequest, reply: FastifyReply) => Promise<unknown>

/** Creates the plugin that registers routes in the scope of a version. */
export const createOwnRoutes =
  (own: OwnRoutes) =>
  async (app: FastifyInstance, { representation }: { representation: Representation }): Promise<void> => {
    const { version } = representation
    const { concurrency, connectionShares, database, idempotency, outbox } = app
    const resources: Resources = new Map(app.resources.map((resource) => [resource.table, resource]))
    const stores = new WeakMap<FastifyRequest, RouteStore>()

    app.decorateRequest('getReadable', function (table) {
      return buildReadable(resources, this, table)
    })
    app.decorateRequest('getStore', function () {
      const store = stores.get(this)
      if (!store) throw new Error(`${this.method} ${this.url}: the route lacks config.isIdempotent`)
      return store
    })

    /** Runs a handler in a transaction, which stores its response if there is an Idempotency-Key. */
    const runOnce =
      (handle: Handle): Handle =>
      async (request, reply) => {
        const actor = getActor(request)
        const key = idempotency.readKey(request, actor, getKeyPath(request), getKeyContent(request))
        const write = async (connection: Connection): Promise<StoredResponse> => {
          const origin = getOrigin(actor, request.id)
          const writer = { request, connection, actor, origin }
          const context = { connection, recorders: outbox.recorders, origin }
          stores.set(request, { ...context, of: createStoreFinder(resources, writer) })
          const body = await handle(request, reply)
          // `reply.serialize` finds no serializer of a response with media types.
          const serialize = reply.getSerializationFunction(`${reply.statusCode}`, 'application/json')
          if (reply.sent)
            throw new Error(`${request.method} ${request.url}: the handler returns its response`)
          const location = reply.getHeader('location')
          return {
            status: reply.statusCode,
            location: typeof location === 'string' ? location : null,
            etag: null,
            body:
              body === undefined ? '' : String(serialize ? serialize(Object(body)) : reply.serialize(body)),
          }
        }
        const { onQueue } = getLifetime(reply.raw)
        const response = key
          ? await idempotency.once(key, { find: async () => undefined, write, onQueue })
          : await connectionShares.run(actor.userId, () => database.transaction(write), onQueue)
        return sendWritten(request, reply, actor, response)
      }

    app.addHook('onRoute', (route) => {
      const { config, handler, method } = route
      const methods = [method].flat()
      const isRead = methods.every((each) => each === 'GET' || each === 'HEAD')
      if (config?.isIdempotent && !methods.every((each) => each === 'POST' || each === 'PATCH')) {
        throw new Error(`${method} ${route.url}: config.isIdempotent is for POST and PATCH`)
      }
      describeRoute(app, own, route)
      // Without access, the start fails.
      const { access = 'public' } = config ?? {}
      const { name } = own
      for (const each of methods.filter((verb) => verb !== 'HEAD'))
        app.ownRoutes.push({ name, method: each, url: route.url, version, access })
      const handle: Handle = async (request, reply) => {
        // The handler has the database, and may write users with it.
        request.mayChangeCredentials = !isRead
        return handler.call(app, request, reply)
      }
      const run = config?.isIdempotent ? runOnce(handle) : handle
      route.handler = concurrency.holdDuring(isRead ? run : recordingWriter(database, run))
    })
    await app.register(own.plugin)
  }
