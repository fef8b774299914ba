/** Derives the Ed25519 keys that sign and verify access tokens. */
import { createHash, createPrivateKey, createPublicKey, type KeyObject } from 'node:crypto'

export interface SigningKey {
  /** The key's thumbprint (RFC 7638). */
  kid: string
  privatePem: string
  publicPem: string
  /** The public key, as the JWKS endpoint publishes it. */
  jwk: { kty: string; crv: string; x: string; kid: string; alg: 'EdDSA'; use: 'sig' }
}

/** The PKCS #8 header before the 32 bytes of an Ed25519 seed (RFC 8410, section 7). */
const PKCS8_PREFIX = Buffer.from('302e020100300506032b657004220420', 'hex')

/**
 * Returns the private key of a seed.
 * @param seed 32 bytes; replicas with the same secret derive the same seed
 */
export const createKeyFromSeed = (seed: Buffer): KeyObject =>
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
