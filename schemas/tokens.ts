/** Tokens: what signing in gives. */
import { Type } from '@sinclair/typebox'
import { Id, OneOf, Text } from './types.ts'

const secret = (description: string, maxLength: number) =>
  Text({ minLength: 1, maxLength, writeOnly: true, 'x-trim': false, description })

export const PasswordGrant = Type.Object(
  {
    grant_type: OneOf(['password'], { description: 'Signing in' }),
    email: Text({ format: 'email', maxLength: 254, examples: ['ada@example.com'] }),
    password: secret('As it was set', 128),
  },
  { title: 'PasswordGrant' },
)

export const RefreshGrant = Type.Object(
  {
    grant_type: OneOf(['refresh_token'], { description: 'Staying signed in' }),
    refresh_token: secret('The one that the last reply gave', 500),
  },
  { title: 'RefreshGrant' },
)

export const Token = Type.Object(
  {
    id: Id("The access token's `jti`"),
    token_type: OneOf(['Bearer']),
    access_token: Type.String({ description: 'For `Authorization: Bearer`' }),
    expires_in: Type.Integer({ description: 'Seconds', examples: [900] }),
    refresh_token: Type.String({ description: 'Good once, for the next `grant_type: refresh_token`' }),
    refresh_expires_in: Type.Integer({ description: 'Seconds until it ends, if it is not used' }),
    session_id: Id('The sign-in'),
    user_id: Id('Who signed in'),
  },
  { title: 'Token' },
)
