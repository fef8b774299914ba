/** The schemas of API keys, the credentials of programs. */
import { Type } from '@sinclair/typebox'
import { common, Id, Integer, Nullable, OneOf, Text, Timestamp } from './types.ts'

const scopeNames = ['users', 'user-profiles', 'posts', 'products', 'orders'].flatMap((name) => [
  `${name}:read`,
  `${name}:write`,
])

/** The scopes that a key can have. A request also needs the permission of its owner's role. */
const scopes = ['*', ...scopeNames]

const members = {
  name: Text({ minLength: 1, maxLength: 100, examples: ['Nightly export'] }),
  scopes: Type.Array(OneOf(scopes), {
    minItems: 1,
    maxItems: scopes.length,
    uniqueItems: true,
    description: '`*` allows everything; `{collection}:write` includes `{collection}:read`',
    examples: [['products:read']],
  }),
  rate_limit: Nullable(
    Integer(1, 1_000_000_000, {
      description: 'Requests per window. They also count in the limit of the owner, which cannot be exceeded',
    }),
  ),
}

const expiry = Timestamp('The expiry: by default after 90 days, after at most 365 days')

export const ApiKey = Type.Object(
  {
    id: Id(),
    user_id: Id('The owner, as whom the key authenticates'),
    ...members,
    expires_at: expiry,
    prefix: Type.String({ description: 'The first characters, to identify the key' }),
    last_used_at: Type.Unsafe<string | null>({
      ...Timestamp('The last use, to the minute; null if the key was never used'),
      type: ['string', 'null'],
    }),
    key: Type.Unsafe<string | null>({
      type: ['string', 'null'],
      description: 'The key itself, only in the response to its creation; null afterwards',
    }),
    ...common,
  },
  { title: 'ApiKey' },
)

const input = { ...members, expires_at: Type.Optional(expiry) }

export const ApiKeyCreate = Type.Object(input, { title: 'ApiKeyCreate' })

export const ApiKeyChange = Type.Object(input, { title: 'ApiKeyChange' })
