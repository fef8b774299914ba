/** The schema of sessions, the sign-ins of a user. */
import { common, Id, OrNull, Shown, Timestamp } from '@resource-api/api/schemas'
import { Type } from '@sinclair/typebox'

export const Session = Type.Object(
  {
    id: Id(),
    user_id: Id('The user'),
    last_used_at: Timestamp('The last use, to the minute'),
    expires_at: Timestamp('The expiry, if the session is not used before', '2026-12-21T09:30:00.000Z'),
    ip: OrNull(Shown('The IP address at sign-in', '203.0.113.7')),
    user_agent: OrNull(Shown('The User-Agent header at sign-in', 'curl/8.5.0')),
    current: Type.Boolean({ description: 'Whether this is the session of the request', examples: [true] }),
    ...common,
  },
  { title: 'Session', description: 'A sign-in of a user' },
)
