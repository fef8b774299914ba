/** Receives the body of an import whole: its beginning in memory, the rest in a file that no longer has a name. */
import { createHash } from 'node:crypto'
import { type FileHandle, open, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { apiError } from '@resource-api/api/errors'
import { disconnected, FRAGMENTED_MESSAGE, isFragmented } from '@resource-api/api/requests'
import { newId } from '@resource-api/database'
import { createFolder } from '@resource-api/database/files'

/** Bytes that are written to the file, or read from it, together; those that are written may be a few more. */
const BLOCK_BYTES = 65_536
/** Bytes of each import that stay in memory. */
const MAX_MEMORY_BYTES = 2_097_152
/** Milliseconds in which the next part has to arrive, and what is not read. */
const PART_TIMEOUT_MS = 10_000
const PREFIX = 'import-'
const CLOSE = { Connection: 'close' }

export interface ReceiveOptions {
  maxBytes: number
  /** Milliseconds in which all of the body has to arrive. */
  receiveMs: number
  partTimeoutMs?: number
  /** The folder of the files. */
  folder: string
  /** Changes the number of bytes that the files of the process have. @throws ApiError 503 if there are too many */
  addFileBytes(count: number): void
}

/** Discards what was not read of a body, so that the client can send it and read the response. */
export function discardBody(body: Readable): void {
  if (body.readableEnded || body.destroyed) return
  const timer = setTimeout(() => body.destroy(), PART_TIMEOUT_MS).unref()
  body.once('end', () => clearTimeout(timer)).resume()
}

/** Removes the files of processes that were killed before they had removed the names. */
export async function removeFiles(folder: string): Promise<void> {
  const names = await readdir(folder).catch(() => [])
  for (const name of names) if (name.startsWith(PREFIX)) await rm(join(folder, name), { force: true })
}

/** Opens a file that only this process can reach, and that the system removes when the process closes it or ends. */
async function openFile(folder: string): Promise<FileHandle> {
  createFolder(folder)
  const path = join(folder, `${PREFIX}${newId()}`)
  const file = await open(path, 'wx+', 0o600)
  await rm(path, { force: true })
  return file
}

export class ReceivedBody {
  readonly #options: ReceiveOptions
  readonly #hash = createHash('sha256')
  /** The beginning of the body. */
  readonly #blocks: Buffer[] = []
  #file: FileHandle | undefined
  #fileBytes = 0
  /** The parts of the next block. */
  #parts: Buffer[] = []
  #partBytes = 0
  /** The bytes that have arrived. */
  bytes = 0
  /** The hash of the body; undefined until all of it has arrived. */
  digest: string | undefined

  constructor(options: ReceiveOptions) {
    this.#options = options
  }

  /** @throws ApiError 400, 408, 413; 503 if it cannot be written to the disk */
  async receive(body: Readable): Promise<void> {
    const { maxBytes, receiveMs, partTimeoutMs = PART_TIMEOUT_MS } = this.#options
    const endsAt = performance.now() + receiveMs
    // To destroy the body is to destroy the connection, on which the response is sent.
    const chunks: AsyncIterator<Buffer> = body.iterator({ destroyOnReturn: false })
    try {
      for (let count = 1; ; count++) {
        const chunk = await awaitChunk(chunks, Math.min(partTimeoutMs, endsAt - performance.now()))
        if (!chunk) break
        this.bytes += chunk.length
        if (this.bytes > maxBytes) {
          throw apiError('PAYLOAD_TOO_LARGE', { message: `The body is larger than ${maxBytes} bytes` })
        }
        if (isFragmented(count, this.bytes)) {
          throw apiError('INVALID_REQUEST', { message: FRAGMENTED_MESSAGE, headers: CLOSE })
        }
        this.#hash.update(chunk)
        // A copy: a chunk of a few bytes can keep a buffer of 64 KiB in memory.
        this.#parts.push(Buffer.from(chunk))
        this.#partBytes += chunk.length
        if (this.#partBytes >= BLOCK_BYTES) await this.#endBlock()
      }
    } finally {
      // While an iterator listens to the body, its rest cannot be discarded.
      void chunks.return?.()
    }
    await this.#endBlock()
    this.digest = this.#hash.digest('base64url')
  }

  /** Returns the body from its beginning, in parts. A part is valid until the next one is read. */
  async *read(): AsyncGenerator<Buffer, void, undefined> {
    yield* this.#blocks
    if (!this.#file) return
    const buffer = Buffer.allocUnsafe(BLOCK_BYTES)
    for (let position = 0; position < this.#fileBytes; ) {
      const { bytesRead } = await this.#file.read(buffer, 0, BLOCK_BYTES, position)
      if (bytesRead === 0) throw new Error('The file of an import is shorter than what was written')
      position += bytesRead
      yield buffer.subarray(0, bytesRead)
    }
  }

  async close(): Promise<void> {
    this.#blocks.length = 0
    await this.#file?.close()
    this.#file = undefined
    this.#options.addFileBytes(-this.#fileBytes)
    this.#fileBytes = 0
  }

  async #endBlock(): Promise<void> {
    const block = Buffer.concat(this.#parts)
    this.#parts = []
    this.#partBytes = 0
    if (this.bytes <= MAX_MEMORY_BYTES) {
      this.#blocks.push(block)
      return
    }
    this.#options.addFileBytes(block.length)
    this.#fileBytes += block.length
    try {
      this.#file ??= await openFile(this.#options.folder)
      await this.#file.writeFile(block)
    } catch (cause) {
      const message = 'The server cannot store the body'
      throw apiError('SERVICE_UNAVAILABLE', { message, headers: CLOSE, retryAfter: 60, cause })
    }
  }
}

/** Returns the next part of the body; undefined at its end. @throws ApiError 408 */
async function awaitChunk(chunks: AsyncIterator<Buffer>, ms: number): Promise<Buffer | undefined> {
  const next = chunks.next().catch(() => {
    throw disconnected
  })
  // After a timeout, nothing waits for it.
  next.catch(() => {})
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(apiError('REQUEST_TIMEOUT', { headers: CLOSE })), ms)
  })
  try {
    const { done, value } = await Promise.race([next, late])
    return done ? undefined : value
  } finally {
    clearTimeout(timer)
  }
}
