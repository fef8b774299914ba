/** Users: who may call, and whom everything belongs to. */
import { Type } from '@sinclair/typebox'
import { common, Id, OneOf, Text } from './types.ts'

const roles = ['member', 'manager', 'admin'] as const
const userStatuses = ['active', 'inactive', 'suspended'] as const

const members = {
  name: Text({ minLength: 1, maxLength: 200, description: 'The name to show', examples: ['Ada Lovelace'] }),
  email: Text({
    format: 'email',
    maxLength: 254,
    description: 'Unique, kept in lower case',
    examples: ['ada@example.com'],
  }),
  role: OneOf(roles, { default: 'member', description: 'What the user may do; only an admin changes it' }),
  status: OneOf(userStatuses, {
    default: 'active',
    description: 'One who is not active cannot authenticate',
  }),
}

const Password = (description: string) =>
  Text({
    minLength: 12,
    maxLength: 128,
    writeOnly: true,
    'x-trim': false,
    description,
    examples: ['twelve brass cogs, turning'],
  })

const secrets = {
  password: Type.Optional(Password('Never shown. Not the e-mail address or the name')),
}

export const User = Type.Object({ id: Id(), ...members, ...common }, { title: 'User' })

export const UserCreate = Type.Object({ ...members, ...secrets }, { title: 'UserCreate' })

export const UserChange = Type.Object(
  {
    ...members,
    ...secrets,
    current_password: Type.Optional(
      Text({
        minLength: 1,
        maxLength: 128,
        writeOnly: true,
        'x-trim': false,
        description: "Beside one's own new `password` or `email`",
        examples: ['eleven brass cogs, turning'],
      }),
    ),
    revoke_api_keys: Type.Optional(
      Type.Boolean({
        writeOnly: true,
        description:
          'With `true`, deletes all API keys of the user. Only beside a new `password` or `email`. Keys stay otherwise',
        examples: [true],
      }),
    ),
  },
  { title: 'UserChange' },
)
