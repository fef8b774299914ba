/** Issues and verifies access tokens, keeps sessions, and publishes the signing keys as a JSON Web Key Set (RFC 7517). */
import { deriveKey, type RunConfig } from '@resource-api/http/config'
import { Type } from '@sinclair/typebox'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { type AccessTokens, createAccessTokens, type SigningKeys } from './access-token.ts'
import { createRefreshTokens } from './refresh-token.ts'
import { createSessions, type Sessions } from './sessions.ts'

export type TokenConfig = Pick<RunConfig, 'ACCESS_TOKEN_TTL' | 'APP_SECRET' | 'JWT_AUDIENCE' | 'JWT_ISSUER'> &
  Pick<RunConfig, 'JWT_PRIVATE_KEY' | 'REQUIRE_VERIFIED_EMAIL'>

declare module 'fastify' {
  interface FastifyInstance {
    accessTokens: AccessTokens
    sessions: Sessions
  }
}

async function tokens(app: FastifyInstance, options: TokenConfig & { keys: SigningKeys }) {
  const { connectionShares, database, outbox } = app
  app.decorate('accessTokens', createAccessTokens(app, options.keys, options.ACCESS_TOKEN_TTL))
  app.decorate(
    'sessions',
    createSessions({
      ...{ database, connectionShares, recorders: outbox.recorders },
      tokens: createRefreshTokens(deriveKey(options.APP_SECRET, 'refresh tokens')),
      requiresVerifiedEmail: options.REQUIRE_VERIFIED_EMAIL,
    }),
  )
}

export default fp(tokens, {
  name: 'tokens',
  dependencies: ['errors', 'database', 'connection-shares', 'outbox', '@fastify/jwt'],
})

const MEMBERS = ['kty', 'crv', 'x', 'kid', 'alg', 'use'] as const
const Jwks = Type.Object({
  keys: Type.Array(Type.Object(Object.fromEntries(MEMBERS.map((name) => [name, Type.String()])))),
})

/** Serves the keys that access tokens are verified with. */
export async function keySet(app: FastifyInstance) {
  const schema = { hide: true, response: { 200: Jwks } }
  app.get('/.well-known/jwks.json', { config: { access: 'public' }, schema }, async (_request, reply) => {
    reply.header('Cache-Control', 'public, max-age=300')
    return { keys: app.accessTokens.jwks }
  })
}
