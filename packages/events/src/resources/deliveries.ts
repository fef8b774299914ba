/** Deliveries: events that are sent to a webhook endpoint. They stand under the path of their endpoint. */
import { invalidBody, type Violation } from '@resource-api/api/errors'
import { Nothing } from '@resource-api/api/schemas'
import { type Connection, newId } from '@resource-api/database'
import { getBuiltInName } from '@resource-api/database/application'
import { DELIVERY, events, work } from '@resource-api/database/tables'
import { collection, create, defineResource, list, read } from '@resource-api/resources'
import { and, eq } from 'drizzle-orm'
import type { PgColumn, PgTableWithColumns } from 'drizzle-orm/pg-core'
import { Delivery, DeliveryCreate } from '../schemas/deliveries.ts'
import { buildOwnerCondition, owner, TEST_EVENT_TYPE } from '../webhooks/delivery-store.ts'
import { createEndpointFinder, getPathUnderEndpoint, underEndpoint } from './webhook-endpoints.ts'

function checkChoice({ event_id, test }: { event_id?: string; test?: true }): Violation[] {
  if (event_id === undefined && test === undefined) {
    return [{ field: 'event_id', message: 'is required, unless "test" is true', code: 'REQUIRED' }]
  }
  if (event_id === undefined || test === undefined) return []
  return [{ field: 'test', message: 'cannot be combined with "event_id"', code: 'INVALID_VALUE' }]
}

const NAME = getBuiltInName('deliveries')
const PATH = getPathUnderEndpoint(NAME)

type Columns = (typeof work)['_']['columns']
type Known = 'endpoint_id' | 'user_id' | 'event_id' | 'event_type'
type NotNull<Column> =
  Column extends PgColumn<infer Config> ? PgColumn<Omit<Config, 'notNull'> & { notNull: true }> : never
/** The table of work, with the columns that are not null in a delivery. */
type DeliveryTable = PgTableWithColumns<{
  name: 'work'
  schema: undefined
  dialect: 'pg'
  columns: Omit<Columns, Known> & { [Name in Known]: NotNull<Columns[Name]> }
}>

const deliveries = collection({
  ...underEndpoint,
  name: NAME,
  // Only rows of deliveries have an endpoint, and so these columns.
  table: work as unknown as DeliveryTable,
  description: 'Events that were sent to a webhook endpoint, or will be. Kept for 30 days',
  // The code of `create` checks whose the endpoint is.
  bodies: { uncheckedReferences: ['endpoint_id'] },
  schemas: { read: Delivery, create: DeliveryCreate, change: Nothing },
  lists: {
    filters: ['status'],
    negations: ['status'],
    sorts: ['created_at'],
    streams: [],
  },
  check: checkChoice,
})

export default defineResource(deliveries, async (app, resource) => {
  const findEndpoint = createEndpointFinder(app)
  const isReadable = buildOwnerCondition(app.events.resources)
  /** Finds an event that the owner of an endpoint may read. */
  const findEvent = (connection: Connection, id: string, ownerId: string) =>
    connection
      .select({ type: events.type, bytes: events.bytes })
      .from(events)
      .innerJoin(owner, eq(owner.id, ownerId))
      .where(and(eq(events.id, id), isReadable))

  app.get(PATH, list(resource))
  app.get(`${PATH}/:id`, read(resource))
  app.post(
    PATH,
    create(resource, async ({ store, id, body, actor }) => {
      const { event_id: eventId, endpoint_id: endpointId = '' } = body
      const { user_id } = await findEndpoint(store.connection, endpointId, actor)
      const [event] =
        eventId === undefined
          ? [{ type: TEST_EVENT_TYPE, bytes: 0 }]
          : await findEvent(store.connection, eventId, user_id)
      if (!event) {
        const message = 'must be the id of an event that the owner of the endpoint may read'
        throw invalidBody([{ field: 'event_id', message, code: 'NOT_FOUND' }])
      }
      return store.insert({
        id,
        kind: DELIVERY,
        endpoint_id: endpointId,
        user_id,
        event_id: eventId ?? newId(),
        event_type: event.type,
        bytes: event.bytes,
        // PostgreSQL reads it as the time of its own clock, by which deliveries are due.
        next_attempt_at: 'now',
      })
    }),
  )
})
