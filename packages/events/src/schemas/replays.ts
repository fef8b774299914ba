/** The schemas of replays: the events of a time that are sent to a webhook endpoint again. */
import { common, Id, Integer, MAX_INTEGER, OneOf, OrNull, Timestamp } from '@resource-api/api/schemas'
import { Type } from '@sinclair/typebox'

const since = Timestamp(
  'The beginning of the time, at most 30 days before its end',
  '2026-11-20T00:00:00.000Z',
)
const UNTIL = 'The end of the time, which is not part of it'
const chosen = OneOf(['failed', 'all'], {
  title: 'ReplayStatus',
  default: 'failed',
  description:
    '`failed`: the events whose deliveries failed; `all`: all events that the endpoint asks for, also those of the time in which it was disabled',
  examples: ['failed'],
})

export const Replay = Type.Object(
  {
    id: Id(),
    endpoint_id: Id('The endpoint'),
    since,
    until: Timestamp(UNTIL),
    status: chosen,
    total: Integer(0, MAX_INTEGER, { description: 'The events that are sent', examples: [250] }),
    sent: Integer(0, MAX_INTEGER, {
      description: 'Those whose first attempt has ended; further attempts follow as for any delivery',
      examples: [120],
    }),
    completed_at: OrNull(Timestamp('When all were sent, or the endpoint was disabled')),
    ...common,
  },
  { title: 'Replay', description: 'The events of a time that are sent to a webhook endpoint again' },
)

export const ReplayCreate = Type.Object(
  {
    since,
    until: Type.Optional(Timestamp(`${UNTIL}; the time of the request if it is absent`)),
    status: chosen,
  },
  {
    title: 'ReplayCreate',
    examples: [{ since: '2026-11-20T00:00:00.000Z', until: '2026-11-21T00:00:00.000Z' }],
  },
)
