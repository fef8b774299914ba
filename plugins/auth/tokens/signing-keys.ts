/** The keys that sign and verify access tokens: Ed25519, the first signs, all verify. */
import { createHash, createPrivateKey, createPublicKey, type KeyObject } from 'node:crypto'

export interface SigningKey {
  /** The key's thumbprint (RFC 7638). */
  kid: string
  privatePem: string
  publicPem: string
  /** The public half as JWKS publishes it. */
  jwk: { kty: string; crv: string; x: string; kid: string; alg: 'EdDSA'; use: 'sig' }
}

/** What stands before the 32 bytes of an Ed25519 seed in PKCS #8 (RFC 8410, section 7). */
const PKCS8_PREFIX = Buffer.from('302e020100300506032b657004220420', 'hex')

/** The private key that a seed of 32 bytes is: the same on every replica that knows the same secret. */
export const keyOfSeed = (seed: Buffer): KeyObject =>
  createPrivateKey({ key: Buffer.concat([PKCS8_PREFIX, seed]), format: 'der', type: 'pkcs8' })

export function toSigningKey(privateKey: KeyObject): SigningKey {
  const publicKey = createPublicKey(privateKey)
  const { kty = '', crv = '', x = '' } = publicKey.export({ format: 'jwk' })
  const kid = createHash('sha256').update(JSON.stringify({ crv, kty, x })).digest('base64url')
  return {
    kid,
    privatePem: privateKey.export({ format: 'pem', type: 'pkcs8' }).toString(),
    publicPem: publicKey.export({ format: 'pem', type: 'spki' }).toString(),
    jwk: { kty, crv, x, kid, alg: 'EdDSA', use: 'sig' },
  }
}
