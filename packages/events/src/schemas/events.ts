/** The schema of events, the changes of resources. */
import {
  exampleId,
  Id,
  Integer,
  MAX_INTEGER,
  OneOf,
  OrNull,
  Shown,
  Timestamp,
} from '@resource-api/api/schemas'
import { Type } from '@sinclair/typebox'

/** The kinds of changes, the last part of an event's type. */
export const changeKinds = ['created', 'updated', 'deleted'] as const

/**
 * @param resourceTypes the names of the resources whose changes are recorded
 * @param hasOtherIds whether rows of some have other ids than UUIDs
 */
export const createEventSchema = (resourceTypes: readonly string[], hasOtherIds = false) => {
  const types = resourceTypes.flatMap((name) => changeKinds.map((kind) => `${name}.${kind}`))
  // Without users, the first type.
  const example = resourceTypes.find((name) => name === 'users') ?? resourceTypes[0] ?? ''
  return Type.Object(
    {
      id: Id('The id of the event, the same in every delivery'),
      position: OrNull(
        Integer(1, MAX_INTEGER, {
          description: 'The place in the feed, which never changes; null until it is assigned',
          examples: [4711],
        }),
      ),
      type: OneOf(types, {
        title: 'EventType',
        description: 'The collection and the kind of change',
        examples: [`${example}.updated`],
      }),
      resource_type: OneOf(resourceTypes, {
        title: 'EventResourceType',
        description: 'The collection of the resource',
        examples: [example],
      }),
      resource_id: hasOtherIds
        ? Shown('The id of the resource, as a text', exampleId)
        : Id('The id of the resource'),
      revision: Integer(1, MAX_INTEGER, {
        description: 'The revision of the resource after the change, with which its `ETag` begins',
        examples: [2],
      }),
      data: Type.Unsafe<Record<string, unknown>>({
        type: 'object',
        additionalProperties: true,
        description:
          'The resource after the change, in the version of the request and without includes; after a deletion, as it was last',
        examples: [{ id: exampleId, name: 'Ada King' }],
      }),
      previous: Type.Unsafe<Record<string, unknown> | null>({
        type: ['object', 'null'],
        additionalProperties: true,
        description:
          'The former values of the fields that changed, without `updated_at`; null unless the resource was updated',
        examples: [{ name: 'Ada' }],
      }),
      actor_id: OrNull(
        Id(
          'The user who made the change; null for a sign-up, the command line, and the bootstrap key without its admin',
        ),
      ),
      credential: OneOf(['token', 'api_key', 'bootstrap_key', 'none', 'system'], {
        title: 'EventCredential',
        description: 'The kind of credential; `system` for the command line',
        examples: ['token'],
      }),
      credential_id: OrNull(Id('The session or the API key')),
      request_id: OrNull(Shown('The value of the X-Request-Id header of the request', exampleId)),
      created_at: Timestamp('The time of the change'),
    },
    { title: 'Event', description: 'A change of a resource' },
  )
}
