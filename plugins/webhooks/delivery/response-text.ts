/** Keeps the beginning of a response's body as a text that the database accepts. */

/** Code points. */
const MAX_CHARACTERS = 1_024
/** UTF-8 needs up to 4 for a code point. */
const MAX_KEPT_BYTES = 4 * MAX_CHARACTERS
/** A body up to this size is read to its end, because the connection can be used again only then. */
const MAX_READ_BYTES = 65_536
/** Chunks, each of which costs time even if it has one byte. */
const MAX_READ_CHUNKS = 256

export function createResponseText() {
  const kept = Buffer.alloc(MAX_KEPT_BYTES)
  let keptBytes = 0
  let readBytes = 0
  let readChunks = 0

  return {
    append(chunk: Uint8Array): void {
      readBytes += chunk.length
      readChunks += 1
      if (keptBytes === MAX_KEPT_BYTES) return
      const rest = chunk.subarray(0, MAX_KEPT_BYTES - keptBytes)
      kept.set(rest, keptBytes)
      keptBytes += rest.length
    },

    /** Whether reading must stop. */
    isFull: (): boolean => readBytes > MAX_READ_BYTES || readChunks > MAX_READ_CHUNKS,

    /** Returns the text: invalid UTF-8 is replaced, and NUL is removed because PostgreSQL has no such text. */
    read(): string {
      // With `stream`, the first bytes of a character that was cut are left out.
      const text = new TextDecoder().decode(kept.subarray(0, keptBytes), { stream: readBytes > keptBytes })
      return Array.from(text.replaceAll('\0', '')).slice(0, MAX_CHARACTERS).join('')
    },
  }
}
