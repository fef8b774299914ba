/** Describes webhooks for the OpenAPI documents: one for each collection whose changes are events. */
import { buildFieldExamples, buildResponseExample, toWords } from '@resource-api/api/documents'
import { exampleId, OneOf, Timestamp } from '@resource-api/api/schemas'
import type { Representation } from '@resource-api/api/versions'
import type { Resource } from '@resource-api/resources/internal'
import { type TSchema, Type } from '@sinclair/typebox'
import type { FastifySchema } from 'fastify'
import { getDataSchema } from '../events/represent-event.ts'
import { changeKinds } from '../schemas/events.ts'
import { TEST_EVENT_TYPE } from './delivery-store.ts'

const buildHeader = (component: string, description: string, example: string) =>
  Type.Optional(Type.String({ description, examples: [example], 'x-component': component }))

const TIME = 'The time of the attempt, in epoch seconds'

const headers = Type.Object({
  'webhook-id': buildHeader('WebhookId', 'The id of the event, the same in every attempt', exampleId),
  'webhook-timestamp': buildHeader('WebhookTimestamp', TIME, '1795253400'),
  'webhook-signature': buildHeader(
    'WebhookSignature',
    'One or more signatures, separated by spaces: `v1,` and the Base64 of the HMAC-SHA256 of `{webhook-id}.{webhook-timestamp}.{body}`',
    'v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=',
  ),
})

/** Returns the schema of an event that may have other types, without the titles by which it would be a component. */
function replaceTypes({ title: _, ...event }: TSchema, types: readonly string[]): TSchema {
  const { attributes } = event.properties
  const replaced = attributes
    ? { attributes: replaceTypes(attributes, types) }
    : { type: OneOf(types, { description: 'The type of the event' }) }
  return { ...event, properties: { ...event.properties, ...replaced } }
}

/** Returns the types of the webhooks of a collection. */
function listTypes(name: string): string[] {
  const types = changeKinds.map((kind) => `${name}.${kind}`)
  return TEST_EVENT_TYPE.startsWith(`${name}.`) ? [...types, TEST_EVENT_TYPE] : types
}

/** Linters take a part of an `allOf` for the whole object, unless it permits the other properties. */
const NARROWER = { description: 'The event of a resource', unevaluatedProperties: true }

/** Returns the schema of an event whose `data` is a resource, as the schema of all events with a part that is narrower. */
function buildEventSchema(events: Resource, resource: Resource, representation: Representation): TSchema {
  const all = getDataSchema(events, representation)
  const types = listTypes(resource.name)
  // No event of the feed is a test.
  const event = types.includes(TEST_EVENT_TYPE) ? replaceTypes(all, types) : all
  const narrower = Type.Object({ data: getDataSchema(resource, representation) }, NARROWER)
  const isTyped = event.properties.attributes !== undefined
  return {
    ...event,
    title: `${resource.singular}Event`,
    'x-documented': {
      description: `The change in ${toWords(resource.name)}`,
      allOf: [event, isTyped ? Type.Object({ attributes: narrower }, NARROWER) : narrower],
    },
  }
}

function describe(events: Resource, resource: Resource, representation: Representation): FastifySchema {
  const { name, singular, schemas } = resource
  const data = buildEventSchema(events, resource, representation)
  const type = `${name}.updated`
  const schema = Type.Object(
    {
      type: OneOf(listTypes(name), { description: 'The type of the event' }),
      timestamp: Timestamp('The time of the change'),
      data,
    },
    { title: `${singular}Message`, description: 'The body of a webhook' },
  )
  const toData = (shown: string, members: Record<string, unknown>) =>
    representation.one({ type: shown, members: { ...members, id: exampleId } }).data
  const event = {
    ...buildFieldExamples(events.schemas.read.properties),
    type,
    resource_type: name,
    // The schema of events does not say which fields the resource has.
    data: buildResponseExample(
      toData(name, buildFieldExamples(schemas.read.properties)),
      getDataSchema(resource, representation),
    ),
    previous: {},
  }
  const example = { type, timestamp: '2026-11-21T09:30:00.000Z', data: toData(events.name, event) }
  return {
    operationId: `receive${singular}Event`,
    summary: `${toWords(singular).replace(/^./, (first) => first.toUpperCase())} events`,
    tags: [name],
    description:
      'Sent to webhook endpoints whose `event_types` contain the type, in their `api_version`. Verify the signature before you use the body, and respond with 2xx within 10 s.',
    headers,
    body: {
      ...schema,
      'x-examples': { [`${singular}Message.updated`]: { value: buildResponseExample(example, schema) } },
    },
    consumes: ['application/json'],
    response: {
      200: { 'x-component': 'WebhookReceived', type: 'null', description: 'Any 2xx: the event was received' },
      410: {
        'x-component': 'WebhookGone',
        type: 'null',
        description: 'The endpoint wants no more events, and is disabled',
      },
    },
    failures: [],
  }
}

/** Returns the operations of webhooks in one version, by the name of the collection. */
export const describeWebhooks = (
  events: Resource | undefined,
  recorded: readonly Resource[],
  representation: Representation,
): Record<string, FastifySchema> =>
  Object.fromEntries(
    events ? recorded.map((resource) => [resource.name, describe(events, resource, representation)]) : [],
  )
