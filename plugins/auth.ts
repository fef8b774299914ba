/** Who calls: @fastify/jwt signs and verifies access tokens, which stand for sessions; API keys are looked up. */
import jwt from '@fastify/jwt'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { type CredentialConfig, credentials } from './auth/index.ts'
import { createJwtOptions, createSigningKeys } from './auth/tokens/access-token.ts'
import tokens, { type TokenConfig } from './auth/tokens/index.ts'

async function auth(app: FastifyInstance, config: TokenConfig & CredentialConfig) {
  const keys = createSigningKeys(config)
  await app.register(jwt, createJwtOptions(keys, config))
  await app.register(tokens, { ...config, keys })
  await app.register(credentials, config)
}

export default fp(auth, { name: 'auth' })
