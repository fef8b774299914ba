/** Verifies that a webhook is from the server: Standard Webhooks 1.0, https://www.standardwebhooks.com. */
import type { ResourceEvent } from './event.ts'

const DEFAULT_TOLERANCE_SECONDS = 300
const SECRET_PREFIX = 'whsec_'

/** What a webhook delivers. */
export interface WebhookPayload {
  /** The type of the event, such as `users.created`. */
  type: string
  /** When the event happened. */
  timestamp: string
  data: ResourceEvent
}

type WebhookHeaders = Pick<Headers, 'get'> | Readonly<Record<string, string | readonly string[] | undefined>>

/** A received webhook, and how to verify it. */
export type WebhookOptions = {
  /** The body as it was received. A body that was parsed and serialized again has another signature. */
  body: string | Uint8Array
  /** The header fields: a `Headers` object, or an object such as `request.headers` of Node.js. */
  headers: WebhookHeaders
  /** By how much `webhook-timestamp` may differ from the clock; 300 by default. */
  toleranceSeconds?: number | undefined
  /** The current time in milliseconds since 1970; by default that of the clock. */
  now?: number | undefined
} & (
  | {
      /** The secret of the endpoint: `whsec_...`. */
      secret: string
      secrets?: never
    }
  | {
      /** Secrets of which one must match: those of several endpoints, or the former and the new one. */
      secrets: readonly string[]
      secret?: never
    }
)

/** The reasons for which a webhook is rejected. */
export type WebhookErrorCode =
  | 'MISSING_HEADER'
  | 'INVALID_TIMESTAMP'
  | 'TIMESTAMP_OUT_OF_RANGE'
  | 'INVALID_SIGNATURE'
  | 'INVALID_BODY'

/** The webhook is not from the server, or was sent too long ago: answer 400, and do nothing else. */
export class WebhookVerificationError extends Error {
  override readonly name = 'WebhookVerificationError'
  readonly code: WebhookErrorCode

  constructor(code: WebhookErrorCode, message: string) {
    super(message)
    this.code = code
  }
}

/**
 * Verifies a webhook and returns its payload.
 * @throws WebhookVerificationError, or TypeError if a secret is not one or the body was parsed already
 */
export async function verifyWebhook(options: WebhookOptions): Promise<WebhookPayload> {
  const { body, headers, now = Date.now(), toleranceSeconds = DEFAULT_TOLERANCE_SECONDS } = options
  const secrets = options.secret === undefined ? options.secrets : [options.secret]
  const id = readHeader(headers, 'webhook-id')
  const timestamp = readHeader(headers, 'webhook-timestamp')
  const signatures = readHeader(headers, 'webhook-signature').split(' ')
  checkTimestamp(timestamp, now, toleranceSeconds)
  const content = concatenate(`${id}.${timestamp}.`, body)
  // One digest for each secret, and not for each signature: a sender could list many.
  const expected = await Promise.all(secrets.map(async (each) => `v1,${await sign(each, content)}`))
  const isSigned = expected.some((valid) => signatures.some((signature) => isEqual(signature, valid)))
  if (!isSigned) {
    throw new WebhookVerificationError('INVALID_SIGNATURE', 'No signature of the webhook matches the secret')
  }
  return parsePayload(body)
}

/** Returns a header field. @throws WebhookVerificationError if it is missing */
function readHeader(headers: WebhookHeaders, name: string): string {
  const value = isHeaders(headers)
    ? headers.get(name)
    : Object.entries(headers).find(([key]) => key.toLowerCase() === name)?.[1]
  if (typeof value === 'string' && value !== '') return value
  throw new WebhookVerificationError('MISSING_HEADER', `The header field ${name} is missing or not one text`)
}

const isHeaders = (headers: WebhookHeaders): headers is Pick<Headers, 'get'> =>
  typeof headers.get === 'function'

function checkTimestamp(timestamp: string, now: number, toleranceSeconds: number): void {
  if (!/^\d{1,12}$/.test(timestamp)) {
    throw new WebhookVerificationError('INVALID_TIMESTAMP', 'webhook-timestamp must be seconds since 1970')
  }
  const ageSeconds = Math.floor(now / 1000) - Number(timestamp)
  if (Math.abs(ageSeconds) <= toleranceSeconds) return
  const difference = ageSeconds > 0 ? `${ageSeconds} s in the past` : `${-ageSeconds} s in the future`
  throw new WebhookVerificationError(
    'TIMESTAMP_OUT_OF_RANGE',
    `webhook-timestamp is ${difference}; ${toleranceSeconds} s are allowed`,
  )
}

/** Returns the bytes that the server signs. */
function concatenate(prefix: string, body: string | Uint8Array): Uint8Array<ArrayBuffer> {
  const isRaw = typeof body === 'string' || body instanceof Uint8Array
  if (!isRaw) throw new TypeError('body must be the text or the bytes of the request, not the parsed JSON')
  const encoder = new TextEncoder()
  const [start, end] = [encoder.encode(prefix), typeof body === 'string' ? encoder.encode(body) : body]
  const content = new Uint8Array(start.length + end.length)
  content.set(start)
  content.set(end, start.length)
  return content
}

/** Returns the HMAC-SHA256 of the content in base64. @throws TypeError if the secret is not one */
async function sign(secret: string, content: Uint8Array<ArrayBuffer>): Promise<string> {
  const algorithm = { name: 'HMAC', hash: 'SHA-256' }
  const key = await crypto.subtle.importKey('raw', decodeSecret(secret), algorithm, false, ['sign'])
  const digest = new Uint8Array(await crypto.subtle.sign('HMAC', key, content))
  return btoa(String.fromCharCode(...digest))
}

function decodeSecret(secret: string): Uint8Array<ArrayBuffer> {
  try {
    const text = atob(secret.startsWith(SECRET_PREFIX) ? secret.slice(SECRET_PREFIX.length) : secret)
    if (text !== '') return Uint8Array.from(text, (character) => character.charCodeAt(0))
  } catch {
    // Not base64, or not a text.
  }
  throw new TypeError(`A secret of a webhook is base64 after ${SECRET_PREFIX}`)
}

/** Compares in a time that does not depend on where the texts differ. */
function isEqual(actual: string, expected: string): boolean {
  let difference = actual.length ^ expected.length
  for (let i = 0; i < expected.length; i++) difference |= actual.charCodeAt(i) ^ expected.charCodeAt(i)
  return difference === 0
}

function parsePayload(body: string | Uint8Array): WebhookPayload {
  try {
    return JSON.parse(typeof body === 'string' ? body : new TextDecoder().decode(body))
  } catch {
    throw new WebhookVerificationError('INVALID_BODY', 'The body of the webhook is not JSON')
  }
}
