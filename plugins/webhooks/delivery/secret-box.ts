/** Encrypts the secrets of webhook endpoints for the database, with AES-256-GCM. */
import { createCipheriv, createDecipheriv, createHash, randomBytes } from 'node:crypto'

interface SecretBoxKeys {
  /** Encrypts and decrypts. 32 bytes. */
  current: Buffer
  /** Former keys, which only decrypt. 32 bytes each. */
  previous: readonly Buffer[]
}

export type SecretBox = ReturnType<typeof createSecretBox>

const ALGORITHM = 'aes-256-gcm'
const NONCE_BYTES = 12
const TAG_BYTES = 16
const OPTIONS = { authTagLength: TAG_BYTES }

/** Returns the name of a key, which does not reveal it. */
const getKeyId = (key: Buffer): string => createHash('sha256').update(key).digest('hex').slice(0, 8)

function open(sealed: Buffer, key: Buffer, endpointId: string): string {
  const decipher = createDecipheriv(ALGORITHM, key, sealed.subarray(0, NONCE_BYTES), OPTIONS)
  decipher.setAAD(Buffer.from(endpointId))
  decipher.setAuthTag(sealed.subarray(-TAG_BYTES))
  const ciphertext = sealed.subarray(NONCE_BYTES, -TAG_BYTES)
  return Buffer.concat([decipher.update(ciphertext), decipher.final()]).toString('utf8')
}

export function createSecretBox({ current, previous }: SecretBoxKeys) {
  const currentId = getKeyId(current)
  const keys = new Map([...previous, current].map((key) => [getKeyId(key), key]))

  return {
    /** @returns `v1.<key id>.<Base64url of the nonce, the ciphertext and the tag>` */
    encrypt(plain: string, endpointId: string): string {
      const nonce = randomBytes(NONCE_BYTES)
      const cipher = createCipheriv(ALGORITHM, current, nonce, OPTIONS)
      // The text is of no use in the row of another endpoint.
      cipher.setAAD(Buffer.from(endpointId))
      const ciphertext = Buffer.concat([cipher.update(plain, 'utf8'), cipher.final()])
      const sealed = Buffer.concat([nonce, ciphertext, cipher.getAuthTag()])
      return `v1.${currentId}.${sealed.toString('base64url')}`
    },

    /** Returns whether a text was encrypted with the current key. */
    isCurrent: (text: string): boolean => text.startsWith(`v1.${currentId}.`),

    /** @throws Error if no key fits, or the text is damaged or belongs to another endpoint */
    decrypt(text: string, endpointId: string): string {
      const [, keyId = '', encoded = ''] = /^v1\.([0-9a-f]{8})\.([A-Za-z0-9_-]+)$/.exec(text) ?? []
      const sealed = Buffer.from(encoded, 'base64url')
      if (sealed.length < NONCE_BYTES + TAG_BYTES)
        throw new Error(`The secret of webhook endpoint ${endpointId} is damaged`)
      const key = keys.get(keyId)
      if (key === undefined)
        throw new Error(
          `The secret of webhook endpoint ${endpointId} was encrypted with key ${keyId}, which this server does not have; ` +
            'set APP_SECRET_PREVIOUS to the former APP_SECRET',
        )
      try {
        return open(sealed, key, endpointId)
      } catch (cause) {
        throw new Error(`The secret of webhook endpoint ${endpointId} is damaged or belongs to another one`, {
          cause,
        })
      }
    },
  }
}
