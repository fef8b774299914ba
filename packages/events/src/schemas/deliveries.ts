/** The schemas of deliveries: an event that is sent to a webhook endpoint, with the result of the latest attempt. */
import { common, Id, Integer, MAX_INTEGER, OneOf, OrNull, Shown, Timestamp } from '@resource-api/api/schemas'
import { Type } from '@sinclair/typebox'

export const Delivery = Type.Object(
  {
    id: Id(),
    endpoint_id: Id('The endpoint'),
    event_id: Id('The event, whose id is the value of `webhook-id`'),
    event_type: Shown('The type of the event', 'users.updated'),
    status: OneOf(['pending', 'succeeded', 'failed'], {
      title: 'DeliveryStatus',
      description: 'The state; `failed` after the last attempt, or if the event must not be sent',
      examples: ['failed'],
    }),
    attempts: Integer(0, MAX_INTEGER, { description: 'The attempts that were sent', examples: [11] }),
    next_attempt_at: OrNull(
      Timestamp('The next attempt; while one runs, when it counts as lost; null if there is none'),
    ),
    response_status: OrNull(
      Integer(100, 999, { description: 'The status of the latest response', examples: [500] }),
    ),
    response_body: OrNull(
      Type.String({
        maxLength: 1_024,
        description: 'The first 1,024 characters of the latest response',
        examples: ['Internal Server Error'],
      }),
    ),
    error: OrNull(
      Shown(
        'Why the latest attempt had no complete response, or why the event was not sent',
        'the connection was refused',
      ),
    ),
    duration_ms: OrNull(
      Integer(0, MAX_INTEGER, { description: 'How long the latest attempt took', examples: [84] }),
    ),
    delivered_at: OrNull(Timestamp('When an attempt succeeded')),
    ...common,
  },
  { title: 'Delivery', description: 'An event that is sent to a webhook endpoint' },
)

export const DeliveryCreate = Type.Object(
  {
    event_id: Type.Optional(Id('The event to send, which the owner of the endpoint may read')),
    test: Type.Optional(
      Type.Literal(true, {
        description: 'In place of `event_id`: sends a `webhook-endpoints.test`, whose `data` is the endpoint',
        examples: [true],
      }),
    ),
  },
  { title: 'DeliveryCreate', description: 'Either `event_id` or `test`', examples: [{ test: true }] },
)
