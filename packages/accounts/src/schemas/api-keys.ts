/** The schemas of API keys, the credentials of programs. */
import {
  common,
  Id,
  Integer,
  Line,
  Nullable,
  OneOf,
  OrNull,
  Shown,
  Timestamp,
} from '@resource-api/api/schemas'
import { Type } from '@sinclair/typebox'

const lifetime = 'The expiry: by default after 90 days, after at most 365 days'

/** @param scopes the scopes that a key can have; a request also needs the permission of its owner's role */
export function createApiKeySchemas(scopes: readonly string[]) {
  // Without users, the first scope after `*`.
  const exampleScope = scopes.find((scope) => scope === 'users:read') ?? scopes[1] ?? '*'
  const fields = {
    name: Line(100, 'The purpose of the key', 'Nightly export'),
    scopes: Type.Array(OneOf(scopes, { title: 'Scope', description: 'A permission of an API key' }), {
      minItems: 1,
      maxItems: scopes.length,
      uniqueItems: true,
      description: '`*` allows everything; `{collection}:write` includes `{collection}:read`',
      examples: [[exampleScope]],
    }),
    rate_limit: Nullable(
      Integer(1, 1_000_000_000, {
        description:
          'Requests per window. They also count in the limit of the owner, which cannot be exceeded',
        examples: [100],
      }),
    ),
  }
  // Without an example: an expiry must be in the future, and this text does not change.
  const expiry = Type.String({ format: 'date-time', description: lifetime })
  const input = { ...fields, expires_at: Type.Optional(expiry) }

  return {
    read: Type.Object(
      {
        id: Id(),
        user_id: Id('The owner, as whom the key authenticates'),
        ...fields,
        expires_at: Timestamp(lifetime, '2027-02-19T09:30:00.000Z'),
        prefix: Shown('The first characters, to identify the key', 'rak_k3Jv0b'),
        last_used_at: OrNull(Timestamp('The last use, to the minute; null if the key was never used')),
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
