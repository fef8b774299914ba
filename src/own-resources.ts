/** The resources that every app has in addition to those of its list: credentials, events and webhooks. */
import type { ResourceDefinition } from '../plugins/collection/definition.ts'
import { createApiKeysResource } from '../plugins/resources/api-keys.ts'
import { createDeliveriesResource } from '../plugins/resources/deliveries.ts'
import { createEventsResource } from '../plugins/resources/events.ts'
import { sessionsResource } from '../plugins/resources/sessions.ts'
import {
  createWebhookEndpointsResource,
  type WebhookEndpointOptions,
} from '../plugins/resources/webhook-endpoints.ts'
import type { Config } from './config.ts'

/**
 * Returns the definitions of credentials and, if changes are recorded, of events and webhooks. API keys can have the
 * scopes of all but credentials and webhooks.
 */
export function createOwnResources(
  others: readonly ResourceDefinition[],
  { EVENTS }: Pick<Config, 'EVENTS'>,
  webhookOptions: Omit<WebhookEndpointOptions, 'collections'> & { hideForbidden: boolean },
): ResourceDefinition[] {
  const names = others.map(({ name }) => name)
  const credentialResources = [sessionsResource, createApiKeysResource(EVENTS ? [...names, 'events'] : names)]
  if (!EVENTS) return credentialResources
  const common = [...others, ...credentialResources]
  const collections = common.map(({ name }) => name)
  const endpoints = createWebhookEndpointsResource({ ...webhookOptions, collections })
  const { hideForbidden } = webhookOptions
  return [
    ...credentialResources,
    endpoints,
    createDeliveriesResource({ recorded: [...common, endpoints], hideForbidden }),
    createEventsResource([...collections, endpoints.name]),
  ]
}
