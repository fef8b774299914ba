/** The schemas of tokens: the grants to sign in or to refresh a session, and the tokens in the response. */
import { Type } from '@sinclair/typebox'
import { Id, OneOf, Text } from './types.ts'

const Secret = (description: string, maxLength: number, example: string) =>
  Text({ minLength: 1, maxLength, writeOnly: true, 'x-trim': false, description, examples: [example] })

const refreshToken = 'rrt_k3Jv0bYc...'

export const PasswordGrant = Type.Object(
  {
    grant_type: OneOf(['password'], { description: 'Signs in with email and password' }),
    email: Text({ format: 'email', maxLength: 254, examples: ['ada@example.com'] }),
    password: Secret('The password', 128, 'nine brass cogs, turning'),
  },
  { title: 'PasswordGrant' },
)

export const RefreshGrant = Type.Object(
  {
    grant_type: OneOf(['refresh_token'], { description: 'Renews the tokens of a session' }),
    refresh_token: Secret('The refresh token of the last response', 500, refreshToken),
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
    expires_in: Type.Integer({ description: 'Seconds until the access token expires', examples: [900] }),
    refresh_token: Type.String({
      description: 'Can be used once, with `grant_type: refresh_token`',
      examples: [refreshToken],
    }),
    refresh_expires_in: Type.Integer({
      description: 'Seconds until the refresh token expires, if it is not used',
      examples: [2_592_000],
    }),
    session_id: Id('The session'),
    user_id: Id('The user'),
  },
  { title: 'Token' },
)
