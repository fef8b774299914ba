/** The schema of sessions, the sign-ins of a user. */
import { Type } from '@sinclair/typebox'
import { common, Id, Timestamp } from './types.ts'

const NullableText = (description: string) =>
  Type.Unsafe<string | null>({ type: ['string', 'null'], description })

export const Session = Type.Object(
  {
    id: Id(),
    user_id: Id('The user'),
    last_used_at: Timestamp('The last use, to the minute'),
    expires_at: Timestamp('The expiry, if the session is not used before'),
    ip: NullableText('The IP address at sign-in'),
    user_agent: NullableText('The User-Agent header at sign-in'),
    current: Type.Boolean({ description: 'Whether this is the session of the request' }),
    ...common,
  },
  { title: 'Session' },
)
