/** Encrypts secrets for the database, with AES-256-GCM: those of webhook endpoints, and the tokens of mails that wait. */
import { createCipheriv, createDecipheriv, createHash, randomBytes } from 'node:crypto'
import { deriveKey } from './secrets.ts'
import type { RunConfig } from './settings.ts'

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

function open(sealed: Buffer, key: Buffer, ownerId: string): string {
  const decipher = createDecipheriv(ALGORITHM, key, sealed.subarray(0, NONCE_BYTES), OPTIONS)
  decipher.setAAD(Buffer.from(ownerId))
  decipher.setAuthTag(sealed.subarray(-TAG_BYTES))
  const ciphertext = sealed.subarray(NONCE_BYTES, -TAG_BYTES)
  return Buffer.concat([decipher.update(ciphertext), decipher.final()]).toString('utf8')
}

export function createSecretBox({ current, previous }: SecretBoxKeys) {
  const currentId = getKeyId(current)
  const keys = new Map([...previous, current].map((key) => [getKeyId(key), key]))

  return {
    /**
     * @param ownerId of the webhook endpoint or the mail in whose row the text stands
     * @returns `v1.<key id>.<Base64url of the nonce, the ciphertext and the tag>`
     */
    encrypt(plain: string, ownerId: string): string {
      const nonce = randomBytes(NONCE_BYTES)
      const cipher = createCipheriv(ALGORITHM, current, nonce, OPTIONS)
      // The text is of no use in another row.
      cipher.setAAD(Buffer.from(ownerId))
      const ciphertext = Buffer.concat([cipher.update(plain, 'utf8'), cipher.final()])
      const sealed = Buffer.concat([nonce, ciphertext, cipher.getAuthTag()])
      return `v1.${currentId}.${sealed.toString('base64url')}`
    },

    /** Returns whether a text was encrypted with the current key. */
    isCurrent: (text: string): boolean => text.startsWith(`v1.${currentId}.`),

    /** @throws Error if no key fits, or the text is damaged or belongs to another row */
    decrypt(text: string, ownerId: string): string {
      const [, keyId = '', encoded = ''] = /^v1\.([0-9a-f]{8})\.([A-Za-z0-9_-]+)$/.exec(text) ?? []
      const sealed = Buffer.from(encoded, 'base64url')
      if (sealed.length < NONCE_BYTES + TAG_BYTES) throw new Error(`The secret of ${ownerId} is damaged`)
      const key = keys.get(keyId)
      if (key === undefined)
        throw new Error(
          `The secret of ${ownerId} was encrypted with key ${keyId}, which this server does not have; ` +
            'set APP_SECRET_PREVIOUS to the former APP_SECRET',
        )
      try {
        return open(sealed, key, ownerId)
      } catch (cause) {
        throw new Error(`The secret of ${ownerId} is damaged or belongs to another one`, {
          cause,
        })
      }
    },
  }
}

/** Creates the box of one purpose, with the keys derived from the application secret and the former one. */
export const createConfiguredBox = (
  { APP_SECRET, APP_SECRET_PREVIOUS: previous }: Pick<RunConfig, 'APP_SECRET' | 'APP_SECRET_PREVIOUS'>,
  purpose: string,
): SecretBox =>
  createSecretBox({
    current: deriveKey(APP_SECRET, purpose),
    previous: previous === undefined ? [] : [deriveKey(previous, purpose)],
  })
