/** Tokens: what signing in gives. */
import { Type } from '@sinclair/typebox'
import { Id, OneOf, Text } from './types.ts'

const secret = (description: string, maxLength: number, example: string) =>
  Text({ minLength: 1, maxLength, writeOnly: true, 'x-trim': false, description, examples: [example] })

const refreshToken = 'rrt_k3Jv0bYc...'

export const PasswordGrant = Type.Object(
  {
    grant_type: OneOf(['password'], { description: 'Signing in' }),
    email: Text({ format: 'email', maxLength: 254, examples: ['ada@example.com'] }),
    password: secret('As it was set', 128, 'nine brass cogs, turning'),
  },
  { title: 'PasswordGrant' },
)

export const RefreshGrant = Type.Object(
  {
    grant_type: OneOf(['refresh_token'], { description: 'Staying signed in' }),
    refresh_token: secret('The one that the last reply gave', 500, refreshToken),
  },
  { title: 'RefreshGrant' },
)

export const Token = Type.Object(
  {
    id: Id("The access token's `jti`"),
    token_type: OneOf(['Bearer']),
    access_token: Type.String({
      description: 'For `Authorization: Bearer`',
      examples: ['eyJhbGciOiJFZERTQSIs...'],
    }),
    expires_in: Type.Integer({ description: 'Seconds', examples: [900] }),
    refresh_token: Type.String({
      description: 'Good once, for the next `grant_type: refresh_token`',
      examples: [refreshToken],
    }),
    refresh_expires_in: Type.Integer({
      description: 'Seconds until it ends, if it is not used',
      examples: [2_592_000],
    }),
    session_id: Id('The sign-in'),
    user_id: Id('Who signed in'),
  },
  { title: 'Token' },
)
