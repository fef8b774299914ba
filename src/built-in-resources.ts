/** The resources that every app has in addition to those of its list: credentials, events and webhooks. */
import { listScopes } from '../plugins/access/scopes.ts'
import type { ResourceDefinition } from '../plugins/collection/definition.ts'
import type { ResourcePlugin } from '../plugins/collection/plugin.ts'
import { createRecorders, type Recorders } from '../plugins/outbox/recorder.ts'
import { API_KEYS, createApiKeys, createApiKeysResource } from '../plugins/resources/api-keys.ts'
import { createDeliveriesResource } from '../plugins/resources/deliveries.ts'
import { createEventsResource } from '../plugins/resources/events.ts'
import { createReplaysResource } from '../plugins/resources/replays.ts'
import sessionsResource, { sessions } from '../plugins/resources/sessions.ts'
import {
  createWebhookEndpointsResource,
  type UnderEndpointOptions,
  WEBHOOK_ENDPOINTS,
  type WebhookEndpointOptions,
} from '../plugins/resources/webhook-endpoints.ts'
import { users } from '../plugins/users.ts'
import type { Config } from './config.ts'

/**
 * Returns the resources of credentials and, if changes are recorded, of events and webhooks. API keys can have the
 * scopes of the other resources and of events.
 */
export function createBuiltInResources(
  others: readonly ResourceDefinition[],
  ownScopes: readonly string[],
  { EVENTS, REQUIRE_VERIFIED_EMAIL }: Pick<Config, 'EVENTS' | 'REQUIRE_VERIFIED_EMAIL'>,
  webhookOptions: Omit<WebhookEndpointOptions, 'collections'> & UnderEndpointOptions,
): ResourcePlugin[] {
  const createKeys = (scoped: readonly ResourceDefinition[]) =>
    createApiKeysResource(listScopes(scoped, ownScopes), { requiresVerifiedEmail: REQUIRE_VERIFIED_EMAIL })
  if (!EVENTS) return [sessionsResource, createKeys(others)]
  const collections = [...others.map(({ name }) => name), sessions.name, API_KEYS]
  const events = createEventsResource([...collections, WEBHOOK_ENDPOINTS])
  const credentialResources = [sessionsResource, createKeys([...others, events.collection])]
  const endpoints = createWebhookEndpointsResource({ ...webhookOptions, collections })
  return [
    ...credentialResources,
    endpoints,
    createDeliveriesResource(webhookOptions),
    createReplaysResource(webhookOptions),
    events,
  ]
}

/** Returns the recorders of what commands and the first start change; none if events are turned off. */
export const getAccountRecorders = ({ EVENTS }: Pick<Config, 'EVENTS'>): Recorders =>
  // The scopes of keys do not matter for their events.
  createRecorders(EVENTS ? [users, sessions, createApiKeys([])] : [])
