/** Ids: UUIDs of version 7 (RFC 9562, section 5.7), which sort by the millisecond they were made in. */
import { randomFillSync } from 'node:crypto'
import { v7 } from 'uuid'

/** Bytes of one id, and how many ids' worth are drawn at once: drawn for each, they cost more than all else of it. */
const BYTES = 16
const DRAWN = new Uint8Array(BYTES * 256)
let used = DRAWN.length

// The same for every id: each has left it as a text before the next is made.
const random = new Uint8Array(BYTES)
const options = { random }

export function newId(): string {
  if (used === DRAWN.length) {
    randomFillSync(DRAWN)
    used = 0
  }
  for (let i = 0; i < BYTES; i++) random[i] = DRAWN[used + i] ?? 0
  used += BYTES
  return v7(options)
}
