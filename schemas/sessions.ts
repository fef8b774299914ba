/** Sessions: where a user is signed in. */
import { Type } from '@sinclair/typebox'
import { common, Id, Timestamp } from './types.ts'

const text = (description: string) => Type.Unsafe<string | null>({ type: ['string', 'null'], description })

export const Session = Type.Object(
  {
    id: Id(),
    user_id: Id('Who is signed in'),
    last_used_at: Timestamp('To the minute'),
    expires_at: Timestamp('When it ends, if it is not used before'),
    ip: text('Where it was begun'),
    user_agent: text('With what'),
    current: Type.Boolean({ description: 'Whether it is the one that asks' }),
    ...common,
  },
  { title: 'Session' },
)
