/** Creates ids: UUIDs of version 7 (RFC 9562, section 5.7), which sort by their millisecond of creation. */
import { randomFillSync } from 'node:crypto'
import { v7 } from 'uuid'

const BYTES_PER_ID = 16
/**
 * Random bytes are drawn for 256 ids together: drawn for each id, they cost more than all other steps of creating it.
 */
const randomPool = new Uint8Array(BYTES_PER_ID * 256)
let usedBytes = randomPool.length

// One buffer serves all ids: `v7` has turned it into text before the next id is created.
const random = new Uint8Array(BYTES_PER_ID)
const options = { random }

export function newId(): string {
  if (usedBytes === randomPool.length) {
    randomFillSync(randomPool)
    usedBytes = 0
  }
  for (let i = 0; i < BYTES_PER_ID; i++) random[i] = randomPool[usedBytes + i] ?? 0
  usedBytes += BYTES_PER_ID
  return v7(options)
}
