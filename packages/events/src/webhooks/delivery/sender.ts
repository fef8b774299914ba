/** Sends webhooks: one POST for each attempt, which reaches only allowed addresses and ends within its timeout. */
import type { AddressPolicy } from './addresses.ts'
import { type Connection, createConnections } from './connections.ts'
import { AttemptError, CANCELED, describeFailure, NOT_PUBLIC, TOO_LARGE } from './failures.ts'
import { createCheckedLookup, createLookup, type LookupAll } from './lookup.ts'
import { readRetryAfter } from './retry-schedule.ts'

interface WebhookSenderOptions {
  policy: AddressPolicy
  /** Milliseconds for a whole attempt: DNS, connection, TLS, request, headers and body of the response. */
  timeoutMs?: number
  lookup?: LookupAll
}

export type WebhookSender = ReturnType<typeof createWebhookSender>

interface WebhookRequest {
  url: string
  headers: Record<string, string>
  body: string
}

/** The outcome of an attempt. It succeeded if `error` is null and the status is 2xx. */
export interface SendResult {
  /** Null if no response began. */
  responseStatus: number | null
  /** The first characters of the body, or null if no response began. */
  responseBody: string | null
  /** Why there is no complete response. Null for a response of any status, and if only the rest of a long body was not read. */
  error: string | null
  durationMs: number
  /** How long the receiver asks to wait, in milliseconds; undefined if it does not. */
  retryAfterMs: number | undefined
}

/** Responses such as 103 that come before the response (RFC 9110, section 15.2). */
const MAX_INTERIM_RESPONSES = 10
/** Small, so that the parser pauses soon in a body of tiny chunks. */
const BODY_BUFFER_BYTES = 1_024

/** Code points of the body that are kept. */
const MAX_CHARACTERS = 1_024
/** UTF-8 needs up to 4 for a code point. */
const MAX_KEPT_BYTES = 4 * MAX_CHARACTERS
/** A body up to this size is read to its end, because the connection can be used again only then. */
const MAX_READ_BYTES = 65_536
/** Chunks, each of which costs time even if it has one byte. */
const MAX_READ_CHUNKS = 256

/** What has arrived of a response. */
class PartialResponse {
  status: number | null = null
  retryAfterMs: number | undefined
  readonly #kept = Buffer.alloc(MAX_KEPT_BYTES)
  #readBytes = 0
  #readChunks = 0

  /** @returns whether the next chunk may be read */
  append(chunk: Uint8Array): boolean {
    if (this.#readBytes < MAX_KEPT_BYTES)
      this.#kept.set(chunk.subarray(0, MAX_KEPT_BYTES - this.#readBytes), this.#readBytes)
    this.#readBytes += chunk.length
    this.#readChunks += 1
    return this.#readBytes <= MAX_READ_BYTES && this.#readChunks <= MAX_READ_CHUNKS
  }

  /** Returns the beginning of the body: invalid UTF-8 is replaced, NUL is removed because PostgreSQL has no such text. */
  readText(): string {
    // With `stream`, the first bytes of a character that was cut are left out.
    const stream = this.#readBytes > MAX_KEPT_BYTES
    const text = new TextDecoder().decode(this.#kept.subarray(0, this.#readBytes), { stream })
    return Array.from(text.replaceAll('\0', '')).slice(0, MAX_CHARACTERS).join('')
  }
}

/** @throws AttemptError */
function readUrl(text: string, policy: AddressPolicy): URL {
  if (!URL.canParse(text)) throw new AttemptError('the URL is not valid')
  const url = new URL(text)
  const isHttp = url.protocol === 'https:' || url.protocol === 'http:'
  if (!isHttp || url.username !== '' || url.password !== '') throw new AttemptError('the URL is not valid')
  // Node.js calls `lookup` for names alone.
  if (!policy.isHostAllowed(url.hostname)) throw new AttemptError(NOT_PUBLIC)
  return url
}

/**
 * Sends the request and reads its response. Fills `received` as it arrives, so that a failure keeps what came before.
 * @returns whether the response was read to its end
 */
async function exchange(
  connection: Connection,
  url: URL,
  { headers, body }: WebhookRequest,
  received: PartialResponse,
): Promise<boolean> {
  let interim = 0
  const onInfo = () => {
    interim += 1
    if (interim > MAX_INTERIM_RESPONSES) connection.end(new AttemptError(TOO_LARGE))
  }
  connection.startResponse()
  // undici does not follow redirects, and uses no proxy of the environment.
  const response = await connection.client.request({
    path: `${url.pathname}${url.search}`,
    method: 'POST',
    headers,
    body,
    onInfo,
    highWaterMark: BODY_BUFFER_BYTES,
  })
  received.status = response.statusCode
  received.retryAfterMs = readRetryAfter(response.statusCode, response.headers['retry-after'])
  const chunks: AsyncIterable<Uint8Array> = response.body
  for await (const chunk of chunks) if (!received.append(chunk)) return false
  return true
}

export function createWebhookSender({
  policy,
  timeoutMs = 15_000,
  lookup = createLookup(),
}: WebhookSenderOptions) {
  const connections = createConnections(createCheckedLookup(policy, lookup))
  const timedOut = `the request timed out after ${timeoutMs / 1_000} s`
  let isClosed = false

  /** @throws AttemptError, or an error of the look-up, the connection or the response */
  async function attempt(request: WebhookRequest, received: PartialResponse): Promise<void> {
    if (isClosed) throw new AttemptError(CANCELED)
    const url = readUrl(request.url, policy)
    const connection = connections.take(url.origin)
    const timer = setTimeout(() => connection.end(new AttemptError(timedOut)), timeoutMs)
    let isReusable = false
    try {
      isReusable = await exchange(connection, url, request, received)
    } finally {
      clearTimeout(timer)
      if (isReusable) connections.release(url.origin, connection)
      else connection.end(new Error('The response was not read to its end'))
    }
  }

  return {
    /** Makes one attempt. Never throws. */
    async send(request: WebhookRequest): Promise<SendResult> {
      const startedAt = performance.now()
      const received = new PartialResponse()
      const error = await attempt(request, received).then(() => null, describeFailure)
      return {
        responseStatus: received.status,
        responseBody: received.status === null ? null : received.readText(),
        error,
        durationMs: Math.round(performance.now() - startedAt),
        retryAfterMs: received.retryAfterMs,
      }
    },

    /** Cancels running attempts and closes all connections. Later attempts are canceled too. */
    close(): void {
      isClosed = true
      connections.endAll(new AttemptError(CANCELED))
    },
  }
}
