/** Webhook endpoints: URLs of admins and of roles of the staff, to which events are sent. */
import type { Actor } from '@resource-api/api/actor'
import { apiError } from '@resource-api/api/errors'
import { CALLER, toReads } from '@resource-api/api/rules'
import { createViolation } from '@resource-api/api/validation'
import { listServed, type Version } from '@resource-api/api/versions'
import { type Connection, prepare } from '@resource-api/database'
import { getBuiltInName } from '@resource-api/database/application'
import { toStaff } from '@resource-api/database/roles'
import { webhookEndpoints } from '@resource-api/database/tables'
import type { Config } from '@resource-api/http/config'
import {
  action,
  type ChangeOf,
  collection,
  create,
  defineResource,
  list,
  type ResourcePlugin,
  read,
  remove,
  replace,
  update,
} from '@resource-api/resources'
import { createNotFound } from '@resource-api/resources/internal'
import { eq, sql } from 'drizzle-orm'
import type { FastifyInstance } from 'fastify'
import { createWebhookEndpointSchemas, listEventTypes } from '../schemas/webhook-endpoints.ts'
import { createUrlRules, findUrlMistake } from '../webhooks/delivery/addresses.ts'
import { createWebhookSecret } from '../webhooks/delivery/signature.ts'

export const WEBHOOK_ENDPOINTS = getBuiltInName('webhook-endpoints')
const PATH = `/${WEBHOOK_ENDPOINTS}`

const MAX_ENDPOINTS_PER_USER = 100

/** How long the former secret signs too. */
const OVERLAP_MS = 24 * 3600 * 1000

const own = [{ user_id: CALLER }] as const
const ownerOrAdmin = { ...toStaff(own), admin: true } as const
const ownerOnly = { ...toStaff(own), admin: own } as const

/** Returns the path of a collection under that of an endpoint. */
export const getPathUnderEndpoint = (name: string) => `${PATH}/:endpoint_id/${name}` as const

/** What the collections under the path of an endpoint have in common. */
export const underEndpoint = {
  parent: { to: WEBHOOK_ENDPOINTS, member: 'endpoint_id' },
  system: { isRecorded: false, bearerOnly: true },
  access: { ...toReads(ownerOrAdmin), create: ownerOrAdmin },
  // Compared with the caller's id; the code of `create` finds out whose the endpoint is.
  defaults: (actor: Actor) => ({ user_id: actor.userId }),
} as const

/** The lock keeps the endpoint until a row that refers to it is inserted. */
const lockEndpoint = prepare((db) =>
  db
    .select({
      user_id: webhookEndpoints.user_id,
      status: webhookEndpoints.status,
      /** The time of the database. */
      now: sql<string>`now()`.as('now'),
    })
    .from(webhookEndpoints)
    .where(eq(webhookEndpoints.id, sql.placeholder('id')))
    .for('key share'),
)

/**
 * Creates a function that returns an endpoint to which the caller may have events sent. It throws ApiError 404, 403, and
 * 409 if the endpoint is disabled.
 */
export const createEndpointFinder =
  ({ refusal }: FastifyInstance) =>
  async (connection: Connection, id: string, actor: Actor) => {
    const createEndpointNotFound = () => createNotFound({ singular: 'WebhookEndpoint' }, id)
    const [endpoint] = await lockEndpoint(connection, { id })
    if (!endpoint) throw createEndpointNotFound()
    if (actor.role !== 'admin' && endpoint.user_id !== actor.userId) {
      throw refusal(createEndpointNotFound)
    }
    if (endpoint.status === 'enabled') return endpoint
    throw apiError('RESOURCE_CONFLICT', { message: 'The endpoint is disabled; enable it first' })
  }

export type EndpointConfig = Pick<Config, 'DEFAULT_API_VERSION' | 'NODE_ENV' | 'WEBHOOK_PRIVATE_ADDRESSES'>

/**
 * Checks that the caller may have another endpoint. The transaction has locked the caller's row (`lockCaller`).
 * @throws ApiError 409 if the user has 100 endpoints
 */
async function ensureRoomForEndpoint(tx: Connection, userId: string): Promise<void> {
  const count = await tx.$count(webhookEndpoints, eq(webhookEndpoints.user_id, userId))
  const message = `A user can have at most ${MAX_ENDPOINTS_PER_USER} webhook endpoints; delete one first`
  if (count >= MAX_ENDPOINTS_PER_USER) throw apiError('RESOURCE_CONFLICT', { message })
}

function createWebhookEndpoints(
  config: EndpointConfig,
  versions: readonly Version[],
  collections: readonly string[],
) {
  const rules = createUrlRules(config)
  return collection({
    name: WEBHOOK_ENDPOINTS,
    table: webhookEndpoints,
    description: `URLs to which events are sent. At most ${MAX_ENDPOINTS_PER_USER} per user`,
    system: { bearerOnly: true, hasDryRun: true },
    schemas: createWebhookEndpointSchemas({
      eventTypes: listEventTypes([...collections, WEBHOOK_ENDPOINTS]),
      versions: versions.map(({ representation }) => representation.version),
      defaultVersion: config.DEFAULT_API_VERSION,
    }),
    lists: {
      nullChecks: ['description'],
      // Few rows: a user has at most 100.
      unindexed: ['description_null'],
      sorts: ['created_at'],
      streams: [],
    },
    access: {
      ...toReads(ownerOrAdmin),
      create: ownerOnly,
      replace: ownerOrAdmin,
      update: ownerOrAdmin,
      remove: ownerOrAdmin,
      actions: { secrets: ownerOrAdmin },
    },
    defaults: (actor) => ({ user_id: actor.userId }),
    computed: (row) => ({ secret: typeof row.secret === 'string' ? row.secret : null }),
    check({ url, api_version: version }) {
      const mistake = url === undefined ? undefined : findUrlMistake(url, rules)
      const violations = mistake === undefined ? [] : [createViolation('url', mistake, 'INVALID_VALUE')]
      const served = listServed(versions)
      if (version === undefined || served.includes(version)) return violations
      const message = `must be a version that is served: ${served.join(', ')}`
      return [...violations, createViolation('api_version', message, 'INVALID_VALUE')]
    },
  })
}

/** @param collections the others whose changes are events */
export function createWebhookEndpointsResource(
  config: EndpointConfig,
  versions: readonly Version[],
  collections: readonly string[],
): ResourcePlugin {
  const endpoints = createWebhookEndpoints(config, versions, collections)

  const change: ChangeOf<typeof endpoints> = {
    run({ store, current, next }) {
      const isEnabled = current.status === 'disabled' && next.status === 'enabled'
      return store.update(current, {
        ...next,
        ...(isEnabled && { disabled_reason: null }),
        // The 5 days of failures, after which an endpoint is disabled, begin again.
        ...((isEnabled || next.url !== current.url) && { failing_since: null }),
      })
    },
  }

  return defineResource(endpoints, async (app, resource) => {
    const { secretBox } = app.webhooks
    app.get(PATH, list(resource))
    app.get(`${PATH}/:id`, read(resource))
    app.post(
      PATH,
      create(resource, async ({ store, id, body, actor }) => {
        await ensureRoomForEndpoint(store.connection, actor.userId)
        const secret = createWebhookSecret()
        const row = await store.insert({ ...body, id, secret_box: secretBox.encrypt(secret, id) })
        return store.isDryRun ? row : { ...row, secret }
      }),
    )
    app.put(`${PATH}/:id`, replace(resource, change))
    app.patch(`${PATH}/:id`, update(resource, change))
    app.delete(`${PATH}/:id`, remove(resource))
    app.post(
      `${PATH}/:id/secrets`,
      action(
        resource,
        'secrets',
        {
          operationId: 'createWebhookSecret',
          hasDryRun: false,
          summary: 'Create a webhook secret',
          description:
            'Gives the endpoint a new `secret`, which only this response shows. Events are signed with both secrets for 24 hours; a further secret replaces the older one. The body is empty or `{}`.',
        },
        async ({ store, current }) => {
          const secret = createWebhookSecret()
          const row = await store.update(current, {
            secret_box: secretBox.encrypt(secret, current.id),
            previous_secret_box: current.secret_box,
            previous_secret_expires_at: new Date(Date.now() + OVERLAP_MS).toISOString(),
          })
          return { ...row, secret }
        },
      ),
    )
  })
}
