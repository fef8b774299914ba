/** The schemas of API keys, the credentials of programs. */
import { Type } from '@sinclair/typebox'
import { common, Id, Integer, Nullable, OneOf, Text, Timestamp } from './types.ts'

const rateLimit = Nullable(
  Integer(1, 1_000_000_000, {
    description: 'Requests per window. They also count in the limit of the owner, which cannot be exceeded',
    examples: [100],
  }),
)

const expiry = Timestamp(
  'The expiry: by default after 90 days, after at most 365 days',
  '2027-02-19T09:30:00.000Z',
)

/** @param scopes the scopes that a key can have; a request also needs the permission of its owner's role */
export function createApiKeySchemas(scopes: readonly string[]) {
  // Without products, the first scope after `*`.
  const exampleScope = scopes.find((scope) => scope === 'products:read') ?? scopes[1] ?? '*'
  const fields = {
    name: Text({
      minLength: 1,
      maxLength: 100,
      description: 'The purpose of the key',
      examples: ['Nightly export'],
    }),
    scopes: Type.Array(OneOf(scopes, { title: 'Scope', description: 'A permission of an API key' }), {
      minItems: 1,
      maxItems: scopes.length,
      uniqueItems: true,
      description: '`*` allows everything; `{collection}:write` includes `{collection}:read`',
      examples: [[exampleScope]],
    }),
    rate_limit: rateLimit,
  }
  // Without an example: an expiry must be in the future, and this text does not change.
  const { examples: _, ...futureExpiry } = expiry
  const input = { ...fields, expires_at: Type.Optional(futureExpiry) }

  return {
    read: Type.Object(
      {
        id: Id(),
        user_id: Id('The owner, as whom the key authenticates'),
        ...fields,
        expires_at: expiry,
        prefix: Type.String({
          description: 'The first characters, to identify the key',
          examples: ['rak_k3Jv0b'],
        }),
        last_used_at: Type.Unsafe<string | null>({
          ...Timestamp('The last use, to the minute; null if the key was never used'),
          type: ['string', 'null'],
        }),
        key: Type.Unsafe<string | null>({
          type: ['string', 'null'],
          description: 'The key itself, only in the response to its creation; null afterwards',
          examples: ['rak_k3Jv0bYc...', null],
        }),
        ...common,
      },
      { title: 'ApiKey', description: 'A credential for a program' },
    ),
    create: Type.Object(input, {
      title: 'ApiKeyCreate',
      examples: [{ name: 'Nightly export', scopes: [exampleScope] }],
    }),
    change: Type.Object(input, {
      title: 'ApiKeyChange',
      examples: [{ name: 'Hourly export', rate_limit: 100 }],
    }),
  }
}
