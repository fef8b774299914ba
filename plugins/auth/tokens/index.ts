/** What credentials are made of: the keys, the access tokens, the sessions; and JWKS for those who verify them. */
import type { KeyObject } from 'node:crypto'
import { Type } from '@sinclair/typebox'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { entityTags } from '../../collection/request/preconditions.ts'
import { type AccessTokens, createAccessTokens } from './access-token.ts'
import { createRefreshTokens } from './refresh-token.ts'
import { createSessions, type Sessions } from './sessions.ts'
import { keyOfSeed, toSigningKey } from './signing-keys.ts'

interface TokensOptions {
  /** From JWT_PRIVATE_KEY: the first signs, all verify. */
  privateKeys: readonly KeyObject[]
  /** 32 bytes that the key is derived from where none is given. */
  seed: Buffer
  /** Derives refresh tokens. */
  refreshKey: Buffer
  issuer: string
  audience: string
  /** Seconds that an access token lives. */
  ttl: number
}

declare module 'fastify' {
  interface FastifyInstance {
    accessTokens: AccessTokens
    sessions: Sessions
  }
}

const Jwks = Type.Object({
  keys: Type.Array(
    Type.Object({
      kty: Type.String(),
      crv: Type.String(),
      x: Type.String(),
      kid: Type.String(),
      alg: Type.String(),
      use: Type.String(),
    }),
  ),
})

async function tokens(app: FastifyInstance, options: TokensOptions) {
  const { privateKeys, seed, refreshKey, issuer, audience, ttl } = options
  const [first = keyOfSeed(seed), ...others] = privateKeys
  const keys = [toSigningKey(first), ...others.map(toSigningKey)] as const

  app.decorate(
    'accessTokens',
    await createAccessTokens(app, { keys: [keys[0], ...keys.slice(1)], issuer, audience, ttl }),
  )
  app.decorate('sessions', createSessions(app.database, createRefreshTokens(refreshKey)))

  const keySet = { keys: keys.map(({ jwk }) => jwk) }
  await app.register(async (scope) => {
    await scope.register(entityTags)
    scope.get(
      '/.well-known/jwks.json',
      {
        config: { access: 'public' },
        schema: {
          tags: ['tokens'],
          operationId: 'getKeySet',
          summary: 'The keys that access tokens are verified with (RFC 7517)',
          response: { 200: Jwks },
        },
      },
      async (_request, reply) => {
        reply.header('Cache-Control', 'public, max-age=300')
        return keySet
      },
    )
  })
}

export default fp(tokens, { name: 'tokens', dependencies: ['errors', 'database', 'conditional'] })
