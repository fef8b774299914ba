/** Reads the bytes of a request body, up to a limit of bytes and of chunks. */
import type { Readable } from 'node:stream'
import { disconnected } from '../admission/request-lifetime.ts'
import { apiError } from '../errors/index.ts'

const EMPTY = Buffer.alloc(0)

/**
 * A body may have this many chunks plus one for every 64 bytes. A chunk takes 2 us in Node's parser and here, whatever
 * its size, so that 1 MiB in chunks of one byte would take as long as 50 requests.
 */
const BASE_CHUNK_COUNT = 1_000
const MIN_BYTES_PER_CHUNK = 64

/** Closes the connection, since the rest of the body is not read. */
const tooManyChunks = () =>
  apiError('INVALID_REQUEST', {
    message: 'The body is sent in too many small chunks; send fewer, larger ones',
    headers: { Connection: 'close' },
  })

/**
 * Reads a body into one buffer that doubles when it is full. A list of 1,000,000 chunks of one byte would use 100 times
 * their size in memory, and take 0.1 s to concatenate.
 * @param limit in bytes
 * @param tooLarge creates the error for a body that exceeds the limit
 * @throws ApiError 400 for a body in chunks that are too small
 */
export function readBytes(payload: Readable, limit: number, tooLarge: () => Error): Promise<Buffer> {
  let bytes = EMPTY
  let length = 0
  let chunks = 0
  return new Promise((resolve, reject) => {
    // A stream that is destroyed emits nothing more.
    if (payload.destroyed) return reject(disconnected)
    const abort = () => finish(disconnected)
    const finish = (error?: Error) => {
      payload.off('data', onData).off('end', finish).off('error', finish).off('close', abort)
      if (error) reject(error)
      else resolve(bytes.subarray(0, length))
    }
    const onData = (chunk: Buffer) => {
      const needed = length + chunk.length
      chunks++
      if (needed > limit) return finish(tooLarge())
      if (chunks > BASE_CHUNK_COUNT + needed / MIN_BYTES_PER_CHUNK) {
        // A full buffer makes the stream pause the socket: of 1 MiB in chunks of one byte, Node parses 64 KiB, not all.
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
    payload.on('data', onData).on('end', finish).on('error', finish).on('close', abort)
  })
}
