/** The resources that every app has in addition to those of its list: credentials, events and webhooks. */

import { API_KEYS, createApiKeysResource, sessions, sessionsResource } from '@resource-api/accounts/internal'
import { listScopes } from '@resource-api/api/access'
import type { Version } from '@resource-api/api/versions'
import { getRowParts, hasUuid } from '@resource-api/database/key'
import type { Config } from '@resource-api/http/config'
import type { ResourcePlugin } from '@resource-api/resources'
import type { ResourceDefinition } from '@resource-api/resources/internal'
import deliveries from './resources/deliveries.ts'
import { createEventsResource } from './resources/events.ts'
import replays from './resources/replays.ts'
import {
  createWebhookEndpointsResource,
  type EndpointConfig,
  WEBHOOK_ENDPOINTS,
} from './resources/webhook-endpoints.ts'

/**
 * Returns the resources of credentials and, if changes are recorded, of events and webhooks. API keys can have the
 * scopes of the other resources and of events.
 */
export function createBuiltInResources(
  others: readonly ResourceDefinition[],
  ownScopes: readonly string[],
  versions: readonly Version[],
  config: EndpointConfig & Pick<Config, 'EVENTS' | 'REQUIRE_VERIFIED_EMAIL'>,
): ResourcePlugin[] {
  const createKeys = (scoped: readonly ResourceDefinition[]) =>
    createApiKeysResource(listScopes(scoped, ownScopes), config)
  if (!config.EVENTS) return [sessionsResource, createKeys(others)]
  const collections = [...others.map(({ name }) => name), sessions.name, API_KEYS]
  const hasOtherIds = others.some(({ isView, table }) => !isView && !hasUuid(getRowParts(table).key))
  const events = createEventsResource([...collections, WEBHOOK_ENDPOINTS], hasOtherIds)
  return [
    sessionsResource,
    createKeys([...others, events.collection]),
    createWebhookEndpointsResource(config, versions, collections),
    deliveries,
    replays,
    events,
  ]
}
