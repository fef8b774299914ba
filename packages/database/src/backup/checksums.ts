/** The number of rows and the SHA-256 of each table: of its lines, each with a line feed, in the order of the rows. */
import { createHash, type Hash } from 'node:crypto'
import type { Batch } from './rows.ts'

/** By the table's name. Tables without rows are absent. */
export type Checksums = Readonly<Record<string, { rows: number; sha256: string }>>

/** Computes checksums of batches, in any order of the tables. */
export class ChecksumBuilder {
  readonly #tables = new Map<string, { rows: number; hash: Hash }>()

  add({ table: name, lines }: Batch): void {
    const table = this.#tables.get(name) ?? { rows: 0, hash: createHash('sha256') }
    this.#tables.set(name, table)
    table.rows += lines.length
    for (const line of lines) table.hash.update(line).update('\n')
  }

  /** To be called once, after the last batch. */
  build(): Checksums {
    return Object.fromEntries(
      [...this.#tables].map(([name, { rows, hash }]) => [name, { rows, sha256: hash.digest('hex') }]),
    )
  }
}

/** Reads all batches, calls `onBatch` with each, and returns the checksums. */
export async function readChecksums(
  batches: AsyncIterable<Batch>,
  onBatch: (batch: Batch) => Promise<void> | void = () => undefined,
): Promise<Checksums> {
  const checksums = new ChecksumBuilder()
  for await (const batch of batches) {
    checksums.add(batch)
    await onBatch(batch)
  }
  return checksums.build()
}

/** Returns the names of the tables whose rows differ. */
export const findDifferences = (left: Checksums, right: Checksums): string[] =>
  [...new Set([...Object.keys(left), ...Object.keys(right)])].filter(
    (name) => left[name]?.rows !== right[name]?.rows || left[name]?.sha256 !== right[name]?.sha256,
  )

export const countAllRows = (checksums: Checksums): number =>
  Object.values(checksums).reduce((sum, { rows }) => sum + rows, 0)
