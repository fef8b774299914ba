/** Who calls: @fastify/jwt signs and verifies access tokens, which stand for sessions; API keys are looked up. */
import jwt from '@fastify/jwt'
import {
  type CredentialConfig,
  createJwtOptions,
  createSigningKeys,
  credentials,
  type TokenConfig,
  tokens,
} from '@resource-api/accounts'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'

async function auth(app: FastifyInstance, config: TokenConfig & CredentialConfig) {
  const keys = createSigningKeys(config)
  await app.register(jwt, createJwtOptions(keys, config))
  await app.register(tokens, { ...config, keys })
  await app.register(credentials, config)
}

export default fp(auth, { name: 'auth' })
