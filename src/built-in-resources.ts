/** The resources that every app has in addition to those of its list: credentials, events and webhooks. */
import { listScopes } from '../plugins/access/scopes.ts'
import type { ResourceDefinition } from '../plugins/collection/definition.ts'
import type { ResourcePlugin } from '../plugins/collection/plugin.ts'
import { createRecorders, type Recorders } from '../plugins/outbox/recorder.ts'
import { API_KEYS, createApiKeys, createApiKeysResource } from '../plugins/resources/api-keys.ts'
import deliveries from '../plugins/resources/deliveries.ts'
import { createEventsResource } from '../plugins/resources/events.ts'
import replays from '../plugins/resources/replays.ts'
import sessionsResource, { sessions } from '../plugins/resources/sessions.ts'
import {
  createWebhookEndpointsResource,
  type EndpointConfig,
  WEBHOOK_ENDPOINTS,
} from '../plugins/resources/webhook-endpoints.ts'
import { users } from '../plugins/users.ts'
import type { Version } from '../plugins/versioning/index.ts'
import type { Config } from './config.ts'

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
  const events = createEventsResource([...collections, WEBHOOK_ENDPOINTS])
  return [
    sessionsResource,
    createKeys([...others, events.collection]),
    createWebhookEndpointsResource(config, versions, collections),
    deliveries,
    replays,
    events,
  ]
}

/** Returns the recorders of what commands and the first start change; none if events are turned off. */
export const getAccountRecorders = ({ EVENTS }: Pick<Config, 'EVENTS'>): Recorders =>
  // The scopes of keys do not matter for their events.
  createRecorders(EVENTS ? [users, sessions, createApiKeys([])] : [])
