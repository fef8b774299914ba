/** A local identity provider that publishes keys, signs tokens, and fails on demand. */
import { generateKeyPairSync, type KeyObject } from 'node:crypto'
import { createServer, type ServerResponse } from 'node:http'
import { exportJWK, SignJWT } from 'jose'
import type { Owner } from '../../../testing/helpers/database.ts'
import { listen } from '../../../testing/helpers/network.ts'

export const ISSUER = 'https://idp.example.com'
const AUDIENCE = 'shop'
const { publicKey, privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
const JWK = await exportJWK(publicKey)

/** Signs a token; a claim that is undefined is omitted. */
export const signToken = (
  claims: Record<string, unknown>,
  kid = 'current',
  alg = 'RS256',
  key: KeyObject | Uint8Array = privateKey,
): Promise<string> =>
  new SignJWT({ iss: ISSUER, aud: AUDIENCE, exp: Math.ceil(Date.now() / 1000) + 300, ...claims })
    .setProtectedHeader({ alg, kid })
    .sign(key)

/** Signs a token of a subject with a verified email. */
export const signUserToken = (subject: string, email?: string, kid?: string): Promise<string> =>
  signToken({ sub: subject, ...(email !== undefined && { email, email_verified: true }) }, kid)

export async function startProvider(t: Owner) {
  const provider = {
    /** Number of requests for the key set. */
    requests: 0,
    /** Answers a request; tests replace it. */
    answer: (response: ServerResponse): void => provider.publish(response),
    /** The `kid` of the published key. */
    kid: 'current',
    publish: (response: ServerResponse): void =>
      provider.publishKeys([{ ...JWK, kid: provider.kid, alg: 'RS256' }])(response),
    publishKeys: (keys: unknown) => (response: ServerResponse) => void response.end(JSON.stringify({ keys })),
    fail: (response: ServerResponse): void => void response.writeHead(500).end(),
    settings: {} as Record<string, string>,
  }
  const server = createServer((_request, response) => {
    provider.requests++
    provider.answer(response)
  })
  const port = await listen(server)
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  provider.settings = {
    AUTH_JWKS_URL: `http://127.0.0.1:${port}/jwks`,
    AUTH_ISSUER: ISSUER,
    AUTH_AUDIENCE: AUDIENCE,
  }
  return provider
}
