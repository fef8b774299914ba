/** The schemas of password resets: who asks for one, how it is completed, and the reset in the response. */
import { Email, Id, OneOf, Secret, Timestamp } from '@resource-api/api/schemas'
import { Type } from '@sinclair/typebox'
import { Password } from './users.ts'

export const exampleLinkToken = 'Zk3vJ0bYc1hV8mQ2sT5uW7xA9dE4gH6jK-nPqRsTuVw'

export const PasswordResetCreate = Type.Object(
  { email: Email('The email address of the account') },
  { title: 'PasswordResetCreate', description: 'Requests a mail with a link' },
)

export const PasswordResetComplete = Type.Object(
  {
    token: Secret(128, 'The token in the link of the mail', exampleLinkToken),
    password: Password('The new password. Must not be the email address or the name'),
    revoke_api_keys: Type.Optional(
      Type.Boolean({ description: 'With `true`, deletes all API keys of the user', examples: [true] }),
    ),
  },
  { title: 'PasswordResetComplete', description: 'Sets a new password' },
)

export const PasswordReset = Type.Object(
  {
    id: Id(),
    status: OneOf(['pending', 'completed'], {
      title: 'PasswordResetStatus',
      description: 'Whether the new password is set',
    }),
    expires_at: Timestamp('When the link in the mail ends'),
  },
  { title: 'PasswordReset', description: 'A link with which a user sets a new password' },
)
