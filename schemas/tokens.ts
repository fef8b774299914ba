/** The schemas of tokens: the grants to sign in or to refresh a session, and the tokens in the response. */
import { Type } from '@sinclair/typebox'
import { Id, MAX_INTEGER, OneOf, Text } from './types.ts'

const Secret = (description: string, maxLength: number, example: string) =>
  Text({ minLength: 1, maxLength, 'x-trim': false, description, examples: [example] })

/** That of the example of `POST /users`, so that the examples work one after the other. */
export const examplePassword = 'twelve brass cogs, turning'

export const exampleRefreshToken = 'rrt_k3Jv0bYc...'

export const PasswordGrant = Type.Object(
  {
    grant_type: OneOf(['password'], { description: 'The kind of the grant' }),
    email: Text({
      format: 'email',
      maxLength: 254,
      description: 'The e-mail address',
      examples: ['ada@example.com'],
    }),
    password: Secret('The password', 128, examplePassword),
  },
  { title: 'PasswordGrant', description: 'Signs in with an e-mail address and a password' },
)

export const RefreshGrant = Type.Object(
  {
    grant_type: OneOf(['refresh_token'], { description: 'The kind of the grant' }),
    refresh_token: Secret('The refresh token of the last response', 500, exampleRefreshToken),
  },
  { title: 'RefreshGrant', description: 'Renews the tokens of a session' },
)

export const Token = Type.Object(
  {
    id: Id("The access token's `jti`"),
    token_type: OneOf(['Bearer'], { description: 'The authentication scheme of the access token' }),
    access_token: Type.String({
      description: 'For `Authorization: Bearer`',
      examples: ['eyJhbGciOiJFZERTQSIs...'],
    }),
    expires_in: Type.Integer({
      minimum: 1,
      maximum: MAX_INTEGER,
      description: 'Seconds until the access token expires',
      examples: [900],
    }),
    refresh_token: Type.String({
      description: 'Can be used once, with `grant_type: refresh_token`',
      examples: [exampleRefreshToken],
    }),
    refresh_expires_in: Type.Integer({
      minimum: 1,
      maximum: MAX_INTEGER,
      description: 'Seconds until the refresh token expires, if it is not used',
      examples: [2_592_000],
    }),
    session_id: Id('The session'),
    user_id: Id('The user'),
  },
  { title: 'Token', description: 'The tokens of a session' },
)
