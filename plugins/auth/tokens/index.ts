/** Registers access tokens and sessions, and publishes the signing keys as a JSON Web Key Set (RFC 7517). */
import type { KeyObject } from 'node:crypto'
import { Type } from '@sinclair/typebox'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { entityTags } from '../../http/preconditions.ts'
import { type AccessTokens, createAccessTokens, createKeyFromSeed, toSigningKey } from './access-token.ts'
import { createRefreshTokens } from './refresh-token.ts'
import { createSessions, type Sessions } from './sessions.ts'

interface TokensOptions {
  /** From JWT_PRIVATE_KEY: the first key signs, all of them verify. */
  privateKeys: readonly KeyObject[]
  /** 32 bytes from which the key is derived if there is none in `privateKeys`. */
  seed: Buffer
  /** Key of the HMAC that derives refresh tokens. */
  refreshKey: Buffer
  issuer: string
  audience: string
  /** Lifetime of an access token in seconds. */
  ttl: number
  /** Whether only users with a verified address get tokens. */
  requiresVerifiedEmail: boolean
}

declare module 'fastify' {
  interface FastifyInstance {
    accessTokens: AccessTokens
    sessions: Sessions
  }
}

const MEMBERS = ['kty', 'crv', 'x', 'kid', 'alg', 'use'] as const
const Jwks = Type.Object({
  keys: Type.Array(Type.Object(Object.fromEntries(MEMBERS.map((name) => [name, Type.String()])))),
})

async function tokens(app: FastifyInstance, options: TokensOptions) {
  const { privateKeys, seed, refreshKey, issuer, audience, ttl, requiresVerifiedEmail } = options
  const [first = createKeyFromSeed(seed), ...others] = privateKeys
  const keys = [toSigningKey(first), ...others.map(toSigningKey)] as const
  const refreshTokens = createRefreshTokens(refreshKey)
  app.decorate('accessTokens', await createAccessTokens(app, { keys, issuer, audience, ttl }))
  const { connectionShares, database, outbox } = app
  app.decorate(
    'sessions',
    createSessions({
      ...{ database, connectionShares, tokens: refreshTokens },
      ...{ recorders: outbox.recorders, requiresVerifiedEmail },
    }),
  )

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
        return { keys: keys.map(({ jwk }) => jwk) }
      },
    )
  })
}

export default fp(tokens, {
  name: 'tokens',
  dependencies: ['errors', 'database', 'connection-shares', 'outbox', 'head-not-modified'],
})
