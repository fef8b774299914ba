/** The schemas of users, who authenticate and own other resources. */
import { common, Email, Id, Line, Nullable, OneOf, Secret, Text, Timestamp } from '@resource-api/api/schemas'
import { roles } from '@resource-api/database/roles'
import { Type } from '@sinclair/typebox'
import { examplePassword } from './tokens.ts'

export const userStatuses = ['active', 'inactive', 'suspended'] as const

const fields = {
  name: Line(200, 'The display name', 'Ada Lovelace'),
  email: Email('Unique; stored in lower case'),
  role: OneOf(roles, {
    title: 'UserRole',
    default: 'member',
    description: 'Determines the permissions of the user; can be changed only by an admin',
  }),
  status: OneOf(userStatuses, {
    title: 'UserStatus',
    default: 'active',
    description: 'Only active users can authenticate',
  }),
}

/** A new password. */
export const Password = (description: string) =>
  Text({ minLength: 12, maxLength: 128, 'x-trim': false, description, examples: [examplePassword] })

const secrets = {
  password: Type.Optional(Password('Never returned. Must not be the email address or the name')),
}

export const User = Type.Object(
  {
    id: Id(),
    ...fields,
    email_verified_at: Nullable(
      Timestamp(
        'When the user proved to receive mail at the address, or an admin set it; null if neither happened',
      ),
    ),
    ...common,
  },
  { title: 'User', description: 'An account that calls the API and owns resources' },
)

export const UserCreate = Type.Object(
  {
    ...fields,
    ...secrets,
    invite: Type.Optional(
      Type.Boolean({
        description:
          'With `false`, a user without a password gets no mail with an invitation. Batches and imports send none',
        'x-in-examples': false,
      }),
    ),
  },
  {
    title: 'UserCreate',
    // What a person who signs up may send; others may too.
    examples: [{ name: 'Ada Lovelace', email: 'ada@example.com', password: examplePassword }],
  },
)

export const UserChange = Type.Object(
  {
    ...fields,
    ...secrets,
    current_password: Type.Optional(
      Secret(128, 'Required to change your own `password` or `email`', 'eleven brass cogs, turning'),
    ),
    revoke_api_keys: Type.Optional(
      Type.Boolean({
        description:
          'With `true`, deletes all API keys of the user. Only allowed with a new `password` or `email`',
        examples: [true],
      }),
    ),
  },
  { title: 'UserChange', examples: [{ name: 'Ada King' }] },
)
