/** Reads the rows of an import in groups, while its body arrives. */
import { createHash } from 'node:crypto'
import type { Readable } from 'node:stream'
import { setImmediate as nextIteration } from 'node:timers/promises'
import { apiError } from '../../../errors/index.ts'
import { FRAGMENTED_MESSAGE, isFragmented } from '../../../http/content-type.ts'
import type { RowParser, SentRow } from './sent-row.ts'

/** Rows of a group. */
const MAX_GROUP_SIZE = 500
/** Bytes of a group, apart from a longer row. */
const MAX_GROUP_BYTES = 262_144
/** Bytes that are parsed in one turn of the event loop, which takes about 0.3 ms: a request waits for several turns. */
const MAX_PARSED_BYTES = 4_096
/** In which each group has to arrive, and what is not read: a slow client holds no connection of the database. */
const GROUP_TIMEOUT_MS = 10_000

export interface RowReaderOptions {
  /** Bytes of the body. */
  maxBytes: number
  maxRows: number
  /** Milliseconds that the import may take. */
  maxMs: number
  /** Milliseconds in which each group has to arrive. */
  groupTimeoutMs?: number
}

const NO_BODY = 'A request body is required'
const CLOSE = { Connection: 'close' }

/** Discards what was not read of a body, so that the client can send it and read the response. */
export function discardBody(body: Readable): void {
  if (body.readableEnded || body.destroyed) return
  const timer = setTimeout(() => body.destroy(), GROUP_TIMEOUT_MS).unref()
  body.once('end', () => clearTimeout(timer)).resume()
}

export class RowReader {
  readonly #parser: RowParser
  readonly #options: RowReaderOptions
  readonly #chunks: AsyncIterator<Buffer>
  readonly #decoder = new TextDecoder('utf-8', { fatal: true })
  readonly #hash = createHash('sha256')
  readonly #endsAt: number
  #bytes = 0
  #chunkCount = 0
  #rows: SentRow[] = []
  #rowCount = 0
  #hasEnded = false

  constructor(body: Readable, parser: RowParser, options: RowReaderOptions) {
    this.#parser = parser
    this.#options = options
    // To destroy the body is to destroy the connection, on which the response is sent.
    this.#chunks = body.iterator({ destroyOnReturn: false })
    this.#endsAt = performance.now() + options.maxMs
  }

  /** The rows that were read. */
  get rowCount(): number {
    return this.#rowCount
  }

  get bytes(): number {
    return this.#bytes
  }

  /** Whether all of the body was read. */
  get hasEnded(): boolean {
    return this.#hasEnded
  }

  /** Returns the hash of the body, once it was read. */
  getDigest(): string {
    return this.#hash.copy().digest('base64url')
  }

  /** @throws ApiError 503 after the time of the import */
  checkTime(): void {
    if (performance.now() < this.#endsAt) return
    const message = `The import took longer than ${this.#options.maxMs / 1000} seconds`
    throw apiError('SERVICE_UNAVAILABLE', { message, headers: CLOSE, retryAfter: 2 })
  }

  /**
   * Returns the next rows; none at the end.
   * @throws ApiError 400 for a body that is empty or not UTF-8; 408, 413 and 503 at a limit
   */
  async readGroup(): Promise<SentRow[]> {
    const startBytes = this.#bytes
    const { groupTimeoutMs = GROUP_TIMEOUT_MS } = this.#options
    const until = Math.min(performance.now() + groupTimeoutMs, this.#endsAt)
    while (
      !this.#hasEnded &&
      !this.#parser.isStopped &&
      this.#rows.length < MAX_GROUP_SIZE &&
      (this.#rows.length === 0 || this.#bytes - startBytes < MAX_GROUP_BYTES)
    ) {
      await this.#readChunk(until)
    }
    return this.#rows.splice(0, MAX_GROUP_SIZE)
  }

  /** Reads the rest of the body for its hash alone. */
  async readRest(): Promise<void> {
    while (!this.#hasEnded) {
      await this.#readChunk(Math.min(performance.now() + GROUP_TIMEOUT_MS, this.#endsAt))
      this.#rows = []
    }
  }

  /** Ends the reading. While an iterator listens to the body, its rest cannot be discarded. */
  close(): void {
    void this.#chunks.return?.()
  }

  async #readChunk(until: number): Promise<void> {
    const chunk = await this.#awaitChunk(until)
    if (!chunk) return this.#readEnd()
    this.#countBytes(chunk)
    for (let start = 0; start < chunk.length; start += MAX_PARSED_BYTES) {
      const text = this.#decode(chunk.subarray(start, start + MAX_PARSED_BYTES))
      if (!this.#parser.isStopped) this.#addRows(this.#parser.push(text))
      // A body of empty lines would otherwise keep the event loop for as long as it arrives.
      await nextIteration()
    }
  }

  async #readEnd(): Promise<void> {
    this.#hasEnded = true
    const text = this.#decode(undefined)
    if (this.#parser.isStopped) return
    this.#addRows(this.#parser.push(text))
    if (!this.#parser.isStopped) this.#addRows(await this.#parser.end())
    if (!this.#parser.hasContent) throw apiError('INVALID_REQUEST', { message: NO_BODY })
  }

  /** @throws ApiError 413 */
  #addRows(rows: readonly SentRow[]): void {
    this.#rowCount = Math.max(this.#rowCount, rows.at(-1)?.number ?? 0)
    const { maxRows } = this.#options
    if (this.#rowCount > maxRows) {
      throw apiError('PAYLOAD_TOO_LARGE', { message: `The body has more than ${maxRows} rows` })
    }
    this.#rows.push(...rows)
  }

  #countBytes(chunk: Buffer): void {
    const { maxBytes } = this.#options
    this.#bytes += chunk.length
    this.#chunkCount += 1
    if (this.#bytes > maxBytes) {
      throw apiError('PAYLOAD_TOO_LARGE', { message: `The body is larger than ${maxBytes} bytes` })
    }
    if (isFragmented(this.#chunkCount, this.#bytes)) {
      throw apiError('INVALID_REQUEST', { message: FRAGMENTED_MESSAGE, headers: CLOSE })
    }
    this.#hash.update(chunk)
  }

  /** @param chunk undefined at the end. @throws ApiError 400 */
  #decode(chunk: Buffer | undefined): string {
    try {
      return this.#decoder.decode(chunk, { stream: chunk !== undefined })
    } catch (cause) {
      throw apiError('INVALID_REQUEST', { message: 'The body is not valid UTF-8', cause })
    }
  }

  /** Returns the next part of the body; undefined at the end. @throws ApiError 408 */
  async #awaitChunk(until: number): Promise<Buffer | undefined> {
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<never>((_, reject) => {
      const refuse = () => reject(apiError('REQUEST_TIMEOUT', { headers: CLOSE }))
      timer = setTimeout(refuse, until - performance.now())
    })
    const next = this.#chunks.next()
    // After a timeout, nothing waits for it.
    next.catch(() => {})
    try {
      const { done, value } = await Promise.race([next, late])
      return done ? undefined : value
    } finally {
      clearTimeout(timer)
    }
  }
}
