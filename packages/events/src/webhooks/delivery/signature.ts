/** Secrets and signatures of webhooks, by Standard Webhooks 1.0. */
import { createHmac, randomBytes } from 'node:crypto'

const PREFIX = 'whsec_'
/** Standard Webhooks asks for 24 to 64. */
const SECRET_BYTES = 32

/** Returns a new secret: `whsec_` and the Base64 of its key. */
export const createWebhookSecret = (): string => `${PREFIX}${randomBytes(SECRET_BYTES).toString('base64')}`

interface SignedMessage {
  /** The value of `webhook-id`. */
  id: string
  /** The value of `webhook-timestamp`: seconds since the epoch. */
  timestampSeconds: number
  body: string
  /** The message gets a signature for each: two during a rotation. */
  secrets: readonly string[]
}

/** Returns the value of `webhook-signature`. */
export const signWebhook = ({ id, timestampSeconds, body, secrets }: SignedMessage): string =>
  secrets
    .map((secret) => {
      const key = Buffer.from(secret.slice(PREFIX.length), 'base64')
      return `v1,${createHmac('sha256', key).update(`${id}.${timestampSeconds}.${body}`).digest('base64')}`
    })
    .join(' ')
