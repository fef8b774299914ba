/** Events: the changes of the other resources, in the order of the feed. */

import { toReads } from '@resource-api/api/rules'
import { exampleId, Nothing, OneOf } from '@resource-api/api/schemas'
import { toEveryRole } from '@resource-api/database'
import { getBuiltInName } from '@resource-api/database/application'
import { events } from '@resource-api/database/tables'
import { collection, defineResource, list, type ResourcePlugin, read } from '@resource-api/resources'
import { Type } from '@sinclair/typebox'
import { sql } from 'drizzle-orm'
import { getWildcard } from '../events/filter.ts'
import { createEventList, createEventRead } from '../events/handlers.ts'
import { changeKinds, createEventSchema } from '../schemas/events.ts'

/** The rows of each role depend on the resources of the events: see ../events/readable.ts. */
const everyRole = toEveryRole(true)

const ACCESS_NOTE =
  'Members read the events of resources that are theirs and that they may read, other roles those of resources that they may read. The data of the event decides. A credential also needs the `read` scope of the resource; events of sessions and API keys need a Bearer token.'

const NAME = getBuiltInName('events')

const createEvents = (resourceTypes: readonly string[], hasOtherIds: boolean) =>
  collection({
    name: NAME,
    table: events,
    description:
      'The changes of resources, in an order that never changes. Members read those of their own resources, other roles those of resources that they may read',
    // A replica may lag behind the position in a cursor.
    system: { isRecorded: false, readsPrimary: true, hasOwnReaders: true },
    schemas: { read: createEventSchema(resourceTypes, hasOtherIds), create: Nothing, change: Nothing },
    lists: {
      filters: ['type', 'resource_type', 'resource_id', 'actor_id'],
      filterValues: {
        type: OneOf(
          resourceTypes.flatMap((name) => [
            ...changeKinds.map((kind) => `${name}.${kind}`),
            getWildcard(name),
          ]),
          { examples: [getWildcard(resourceTypes[0] ?? '')] },
        ),
        ...(hasOtherIds && { resource_id: Type.String({ minLength: 1, examples: [exampleId] }) }),
      },
      // A list has only events with a position, so that NULL is never compared.
      sorts: {
        position: {
          column: events.position,
          ascending: sql`${events.position}`,
          descending: sql`${events.position}`,
          nulls: { ascending: '', descending: '' },
        },
      },
      defaultSort: '-position',
      pagination: 'cursor',
      // The indexes have only events with a position. That of `type` serves `resource_type` too.
      unindexed: ['type', 'resource_type', 'resource_id', 'actor_id', 'position'],
      streams: ['events', 'ndjson', 'csv'],
    },
    access: toReads(everyRole),
    // The reader has replaced them by the representation in a version.
    computed: ({ columns }) => ({ data: columns }),
  })

const LIST_NOTE =
  `${ACCESS_NOTE}\n\n` +
  'With `sort=position`, the order of the feed, the cursor is never null: a consumer polls with the cursor of the last page. Only events with a position are on a page. A cursor names an event: 410 `EVENTS_EXPIRED` says that events after it were removed, or that the feed has lost it.\n\n' +
  'With `Accept: text/event-stream`, the feed is a stream of server-sent events: `id` is the cursor, `event` the type, `data` the event in one line of JSON. It begins after `Last-Event-ID` or `cursor`, or now, and has no `limit`. If the feed loses events that it has sent, it ends with an event of type `error`, whose data is the body of the 410.'

/**
 * @param resourceTypes the names of the resources whose changes are recorded
 * @param hasOtherIds whether rows of some have other ids than UUIDs
 */
export function createEventsResource(resourceTypes: readonly string[], hasOtherIds = false): ResourcePlugin {
  const feed = createEvents(resourceTypes, hasOtherIds)
  return defineResource(feed, async (app, resource) => {
    app.get(
      `/${NAME}`,
      list(resource, { description: LIST_NOTE, failures: [410], handle: createEventList(resource) }),
    )
    app.get(`/${NAME}/:id`, read(resource, { description: ACCESS_NOTE, handle: createEventRead(resource) }))
  })
}
