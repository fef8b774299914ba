/** The resources that every app has in addition to those of its list: credentials, events and webhooks. */
import { listScopes } from '../plugins/access/index.ts'
import type { ResourceDefinition } from '../plugins/collection/definition.ts'
import { createRecorders, type Recorders } from '../plugins/outbox/recorder.ts'
import { API_KEYS, createApiKeysResource } from '../plugins/resources/api-keys.ts'
import { createDeliveriesResource } from '../plugins/resources/deliveries.ts'
import { createEventsResource } from '../plugins/resources/events.ts'
import { createReplaysResource } from '../plugins/resources/replays.ts'
import { sessionsResource } from '../plugins/resources/sessions.ts'
import { usersResource } from '../plugins/resources/users.ts'
import {
  createWebhookEndpointsResource,
  WEBHOOK_ENDPOINTS,
  type WebhookEndpointOptions,
} from '../plugins/resources/webhook-endpoints.ts'
import type { Config } from './config.ts'

/**
 * Returns the definitions of credentials and, if changes are recorded, of events and webhooks. API keys can have the
 * scopes of the other resources and of events.
 */
export function createBuiltInResources(
  others: readonly ResourceDefinition[],
  ownScopes: readonly string[],
  { EVENTS }: Pick<Config, 'EVENTS'>,
  webhookOptions: Omit<WebhookEndpointOptions, 'collections'> & { hideForbidden: boolean },
): ResourceDefinition[] {
  if (!EVENTS) return [sessionsResource, createApiKeysResource(listScopes(others, ownScopes))]
  const collections = [...others.map(({ name }) => name), sessionsResource.name, API_KEYS]
  const events = createEventsResource([...collections, WEBHOOK_ENDPOINTS])
  const credentialResources = [
    sessionsResource,
    createApiKeysResource(listScopes([...others, events], ownScopes)),
  ]
  const endpoints = createWebhookEndpointsResource({ ...webhookOptions, collections })
  const sending = {
    recorded: [...others, ...credentialResources, endpoints],
    hideForbidden: webhookOptions.hideForbidden,
  }
  return [
    ...credentialResources,
    endpoints,
    createDeliveriesResource(sending),
    createReplaysResource(sending),
    events,
  ]
}

/** Returns the recorders of what commands and the first start change; none if events are turned off. */
export const getAccountRecorders = ({ EVENTS }: Pick<Config, 'EVENTS'>): Recorders =>
  // The scopes of keys do not matter for their events.
  createRecorders(EVENTS ? [usersResource, sessionsResource, createApiKeysResource([])] : [])
