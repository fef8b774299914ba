/** The schemas of webhook endpoints, to which events are sent. */
import {
  common,
  Id,
  Integer,
  Lines,
  Nullable,
  OneOf,
  OrNull,
  Shown,
  Text,
  Timestamp,
} from '@resource-api/api/schemas'
import { getBuiltInName } from '@resource-api/database/application'
import { Type } from '@sinclair/typebox'

interface EndpointChoices {
  /** The values of `event_types`: `*`, `{collection}.*`, and each type of event. */
  eventTypes: readonly string[]
  /** The versions of the API. */
  versions: readonly number[]
  /** The version in which events are represented if the endpoint names none. */
  defaultVersion: number
}

/** Returns the values that `event_types` may have, for the collections whose changes are events. */
export const listEventTypes = (collections: readonly string[]): string[] => [
  '*',
  ...collections.flatMap((collection) =>
    ['*', 'created', 'updated', 'deleted'].map((kind) => `${collection}.${kind}`),
  ),
]

export function createWebhookEndpointSchemas({ eventTypes, versions, defaultVersion }: EndpointChoices) {
  // Without users, the first type after `*`.
  const exampleType = eventTypes.find((type) => type === 'users.updated') ?? eventTypes[1] ?? '*'
  const fields = {
    url: Text({
      pattern: '^[hH][tT][tT][pP][sS]?://',
      maxLength: 2_048,
      description:
        'The URL that receives each event in a POST request: https, without credentials and without a fragment, at a public address',
      examples: ['https://example.com/webhooks'],
    }),
    event_types: Type.Array(
      OneOf(eventTypes, { title: 'EventTypePattern', description: 'A type of event, or a pattern of types' }),
      {
        minItems: 1,
        maxItems: 50,
        uniqueItems: true,
        description: 'The types of events to send: `*` for all, `{collection}.*` for all of a collection',
        examples: [[exampleType]],
      },
    ),
    description: Nullable(Lines(500, 'The purpose of the endpoint', 'Updates the search index')),
    api_version: Integer(Math.min(...versions), Math.max(...versions), {
      default: defaultVersion,
      description: 'The version of the API in which events are represented',
      examples: [defaultVersion],
    }),
    status: OneOf(['enabled', 'disabled'], {
      title: 'WebhookEndpointStatus',
      default: 'enabled',
      description:
        'Whether events are sent. The service disables an endpoint that answers 410, or when all attempts of a delivery have failed and none of any has succeeded for 5 days',
      examples: ['enabled'],
    }),
  }

  return {
    read: Type.Object(
      {
        id: Id(),
        user_id: Id('The owner. Only events that the owner may read are sent'),
        ...fields,
        disabled_reason: OrNull(
          Shown(
            'Why the service disabled the endpoint; null if it did not',
            'The endpoint answered 410 Gone',
          ),
        ),
        failing_since: OrNull(
          Timestamp('The first of the latest attempts, all of which failed; null if the latest succeeded'),
        ),
        last_delivered_at: OrNull(Timestamp('The latest successful delivery')),
        secret: Type.Unsafe<string | null>({
          type: ['string', 'null'],
          description: `The secret that signs, only in the responses to the creation and to \`POST /${getBuiltInName('webhook-endpoints')}/{id}/secrets\`; null otherwise`,
          examples: ['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw...', null],
        }),
        ...common,
      },
      { title: 'WebhookEndpoint', description: 'A URL to which events are sent' },
    ),
    create: Type.Object(fields, {
      title: 'WebhookEndpointCreate',
      examples: [{ url: 'https://example.com/webhooks', event_types: [exampleType] }],
    }),
    change: Type.Object(fields, {
      title: 'WebhookEndpointChange',
      examples: [{ event_types: ['*'], description: 'Updates the search index' }],
    }),
  }
}
