/** API keys: credentials for machines. */
import { Type } from '@sinclair/typebox'
import { common, Id, Integer, Nullable, OneOf, Text, Timestamp } from './types.ts'

const rateLimit = Nullable(
  Integer(1, 1_000_000_000, { description: 'Requests per window, beside and below those of its owner' }),
)

const expiry = Timestamp('When it ends; in 90 days when absent, in 365 at most')

/** @param scopes that a key may have; its owner's role decides within them */
export function createApiKeySchemas(scopes: readonly string[]) {
  const members = {
    name: Text({ minLength: 1, maxLength: 100, examples: ['Nightly export'] }),
    scopes: Type.Array(OneOf(scopes), {
      minItems: 1,
      maxItems: scopes.length,
      uniqueItems: true,
      description: '`*` for all; `{collection}:write` includes `{collection}:read`',
      examples: [['products:read']],
    }),
    rate_limit: rateLimit,
  }
  const input = { ...members, expires_at: Type.Optional(expiry) }

  return {
    read: Type.Object(
      {
        id: Id(),
        user_id: Id('Whose power it has'),
        ...members,
        expires_at: expiry,
        prefix: Type.String({ description: 'The first characters, to tell it from others' }),
        last_used_at: Type.Unsafe<string | null>({
          ...Timestamp('To the minute; null when it was never used'),
          type: ['string', 'null'],
        }),
        key: Type.Unsafe<string | null>({
          type: ['string', 'null'],
          description: 'The key itself: in the reply to its creation, and never again (null)',
        }),
        ...common,
      },
      { title: 'ApiKey' },
    ),
    create: Type.Object(input, { title: 'ApiKeyCreate' }),
    change: Type.Object(input, { title: 'ApiKeyChange' }),
  }
}
