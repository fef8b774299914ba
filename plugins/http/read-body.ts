/** Reads the bytes of a body, at most so many. */
import type { Readable } from 'node:stream'

const EMPTY = Buffer.alloc(0)

/**
 * Chunks of a body beside one for each 64 bytes. Each costs 2 us in Node's parser and here, whatever its size, so that
 * 1 MiB of chunks of one byte would cost as much as 50 requests.
 */
const FREE_CHUNKS = 1_000
const MIN_BYTES_PER_CHUNK = 64

/**
 * Copies chunks as they arrive into one buffer that doubles: a list of 1,000,000 chunks of one byte would hold 100
 * times their size, and take 0.1 s to concatenate.
 * @param limit in bytes
 * @param tooLarge the error for a body beyond it
 * @param tooManyChunks the error for a body in chunks that are too small
 */
export function readBytes(
  payload: Readable,
  limit: number,
  { tooLarge, tooManyChunks }: { tooLarge: () => Error; tooManyChunks: () => Error },
  done: (error: Error | null, bytes: Buffer) => void,
): void {
  let bytes = EMPTY
  let length = 0
  let chunks = 0
  const finish = (error: Error | null) => {
    payload.off('data', onData)
    payload.off('end', onEnd)
    payload.off('error', finish)
    done(error, bytes.subarray(0, length))
  }
  const onEnd = () => finish(null)
  const onData = (chunk: Buffer) => {
    const needed = length + chunk.length
    chunks++
    if (needed > limit) return finish(tooLarge())
    if (chunks > FREE_CHUNKS + needed / MIN_BYTES_PER_CHUNK) {
      // With its buffer full, the stream stops the socket: of 1 MiB in chunks of one byte Node.js parses 64 KiB, not all.
      payload.pause()
      payload.unshift(Buffer.alloc(payload.readableHighWaterMark))
      return finish(tooManyChunks())
    }
    if (needed > bytes.length) {
      const grown = Buffer.allocUnsafe(Math.min(limit, Math.max(needed, 2 * bytes.length)))
      bytes.copy(grown, 0, 0, length)
      bytes = grown
    }
    chunk.copy(bytes, length)
    length = needed
  }
  payload.on('data', onData)
  payload.on('end', onEnd)
  payload.on('error', finish)
}
