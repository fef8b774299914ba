/** Secrets and signatures of webhooks, by Standard Webhooks 1.0. */
import { createHmac, randomBytes } from 'node:crypto'

interface SignedMessage {
  /** The value of `webhook-id`. */
  id: string
  /** The value of `webhook-timestamp`: seconds since the epoch. */
  timestampSeconds: number
  /** The body, exactly as it is sent. */
  body: string
  /** The message gets a signature for each: two during a rotation. */
  secrets: readonly string[]
}

const PREFIX = 'whsec_'
/** Standard Webhooks asks for 24 to 64. */
const SECRET_BYTES = 32

/** Returns a new secret: `whsec_` and the Base64 of its key. */
export const createWebhookSecret = (): string => `${PREFIX}${randomBytes(SECRET_BYTES).toString('base64')}`

function readKey(secret: string): Buffer {
  if (!secret.startsWith(PREFIX)) throw new Error(`A webhook secret must begin with ${PREFIX}`)
  return Buffer.from(secret.slice(PREFIX.length), 'base64')
}

/** Returns the value of `webhook-signature`. The tests check it against the `standardwebhooks` package. */
export function signWebhook({ id, timestampSeconds, body, secrets }: SignedMessage): string {
  const content = `${id}.${timestampSeconds}.${body}`
  return secrets
    .map((secret) => `v1,${createHmac('sha256', readKey(secret)).update(content).digest('base64')}`)
    .join(' ')
}
