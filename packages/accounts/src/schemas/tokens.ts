/** The schemas of tokens: the grants to sign in or to refresh a session, and the tokens in the response. */
import { Email, Id, Integer, MAX_INTEGER, OneOf, Secret, Shown } from '@resource-api/api/schemas'
import { Type } from '@sinclair/typebox'

/** That of the example of `POST /users`, so that the examples work one after the other. */
export const examplePassword = 'twelve brass cogs, turning'

export const exampleRefreshToken = 'rrt_k3Jv0bYc...'

export const PasswordGrant = Type.Object(
  {
    grant_type: OneOf(['password'], { description: 'The kind of the grant' }),
    email: Email('The email address'),
    password: Secret(128, 'The password', examplePassword),
  },
  { title: 'PasswordGrant', description: 'Signs in with an email address and a password' },
)

export const RefreshGrant = Type.Object(
  {
    grant_type: OneOf(['refresh_token'], { description: 'The kind of the grant' }),
    refresh_token: Secret(500, 'The refresh token of the last response', exampleRefreshToken),
  },
  { title: 'RefreshGrant', description: 'Renews the tokens of a session' },
)

export const Token = Type.Object(
  {
    id: Id("The access token's `jti`"),
    token_type: OneOf(['Bearer'], { description: 'The authentication scheme of the access token' }),
    access_token: Shown('For `Authorization: Bearer`', 'eyJhbGciOiJFZERTQSIs...'),
    expires_in: Integer(1, MAX_INTEGER, {
      description: 'Seconds until the access token expires',
      examples: [900],
    }),
    refresh_token: Type.String({
      description: 'Can be used once, with `grant_type: refresh_token`',
      examples: [exampleRefreshToken],
    }),
    refresh_expires_in: Integer(1, MAX_INTEGER, {
      description: 'Seconds until the refresh token expires, if it is not used',
      examples: [2_592_000],
    }),
    session_id: Id('The session'),
    user_id: Id('The user'),
  },
  { title: 'Token', description: 'The tokens of a session' },
)
