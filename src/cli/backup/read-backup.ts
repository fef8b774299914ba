/** Reads a backup file and checks it: its format, its completeness and its checksums. */
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { pipeline } from 'node:stream'
import { createGunzip } from 'node:zlib'
import type { Static, TSchema } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import {
  ChecksumBuilder,
  type Checksums,
  findDifferences,
  readChecksums,
} from '../../../drizzle/backup/checksums.ts'
import { type Batch, MAX_BATCH_BYTES, MAX_BATCH_ROWS } from '../../../drizzle/backup/rows.ts'
import { FORMAT_VERSION, FormatMark, Header, TableMark, Trailer } from './format.ts'

/** Characters; the longest row has a few million. A file that is no backup is not read into memory as one line. */
const MAX_LINE_LENGTH = 1 << 26
const LINE_FEED = 0x0a

/** A file that is no complete backup of a known version. */
class BackupError extends Error {
  override readonly name = 'BackupError'
}

export interface BackupFile {
  header: Header
  checksums: Checksums
  /** Reads the rows. @throws BackupError if the file has changed since it was opened */
  readRows(): AsyncGenerator<Batch>
}

/**
 * Opens a backup, reads it to its end and compares its checksums, then calls `work` with it.
 * @throws BackupError if the file is not a complete backup
 */
export async function withBackup<T>(file: string, work: (backup: BackupFile) => Promise<T>): Promise<T> {
  const header = await readHeader(file)
  let sha256: string | undefined
  const readRows = async function* () {
    const { sha256: current } = yield* readBatches(file, header)
    sha256 ??= current
    if (sha256 !== current) throw new BackupError('The file was changed while it was read')
  }
  const checksums = await readChecksums(readRows())
  return work({ header, checksums, readRows })
}

/** Splits the uncompressed text into lines. @throws BackupError if it is not gzip, damaged or incomplete */
async function* readLines(file: string): AsyncGenerator<string> {
  const text = pipeline(
    createReadStream(file),
    createGunzip(),
    // The error is that of the iteration.
    () => undefined,
  )
  let parts: Buffer[] = []
  let length = 0
  try {
    // A stream without an encoding gives buffers.
    for await (const chunk of text as AsyncIterable<Buffer>) {
      let start = 0
      for (let end = chunk.indexOf(LINE_FEED); end >= 0; end = chunk.indexOf(LINE_FEED, start)) {
        yield Buffer.concat([...parts, chunk.subarray(start, end)]).toString()
        parts = []
        length = 0
        start = end + 1
      }
      parts.push(chunk.subarray(start))
      length += chunk.length - start
      if (length > MAX_LINE_LENGTH)
        throw new BackupError('The file is not a backup: it has a line without end')
    }
  } catch (error) {
    throw explainGzipError(error)
  }
  if (length > 0) throw new BackupError('The file is incomplete')
}

function explainGzipError(error: unknown): unknown {
  const code: unknown = error instanceof Error ? Reflect.get(error, 'code') : undefined
  if (typeof code !== 'string' || !code.startsWith('Z_')) return error
  if (code === 'Z_BUF_ERROR') return new BackupError('The file is incomplete', { cause: error })
  return new BackupError('The file is damaged, or is not a backup', { cause: error })
}

function parse<T extends TSchema>(schema: T, line: string): Static<T> | undefined {
  try {
    const value: unknown = JSON.parse(line)
    return Value.Check(schema, value) ? value : undefined
  } catch {
    return undefined
  }
}

async function readHeader(file: string): Promise<Header> {
  for await (const line of readLines(file)) {
    const mark = parse(FormatMark, line)
    if (!mark) break
    if (mark.version !== FORMAT_VERSION)
      throw new BackupError(
        `The backup has version ${mark.version} of the format, and this release reads version ${FORMAT_VERSION}:` +
          ' restore it with the release that wrote it, or a newer one',
      )
    const header = parse(Header, line)
    if (!header) throw new BackupError('The header of the backup is damaged')
    return header
  }
  throw new BackupError('The file is not a backup of this service')
}

/** Reads the lines behind the header. @returns the last line @throws BackupError at the end, if a checksum differs */
async function* readBatches(file: string, header: Header): AsyncGenerator<Batch, Static<typeof Trailer>> {
  const tables = new Set(header.tables.map(({ name }) => name))
  const total = createHash('sha256')
  const checksums = new ChecksumBuilder()
  const batches = new BatchBuilder()
  let trailer: Static<typeof Trailer> | undefined
  let isFirst = true
  for await (const line of readLines(file)) {
    if (trailer) throw new BackupError('The file is damaged: it goes on after its end')
    const isRow = line.startsWith('[')
    if (isRow) batches.add(line)
    if (!isRow || batches.isFull()) {
      const batch = batches.take()
      if (batch) {
        checksums.add(batch)
        yield batch
      }
    }
    if (!isRow && !isFirst) {
      trailer = parse(Trailer, line)
      if (!trailer) {
        const name = parse(TableMark, line)?.table
        if (name === undefined || !tables.has(name))
          throw new BackupError('The file is damaged: it has a table that its header does not name')
        batches.table = name
      }
    }
    if (!trailer) total.update(line).update('\n')
    isFirst = false
  }
  if (!trailer) throw new BackupError('The file is incomplete')
  const isIntact =
    trailer.sha256 === total.digest('hex') &&
    findDifferences(trailer.checksums, checksums.build()).length === 0
  if (!isIntact) throw new BackupError('The file is damaged: its checksum differs')
  return trailer
}

/** Collects the rows of one table into batches. */
class BatchBuilder {
  table: string | undefined
  #lines: string[] = []
  #bytes = 0

  add(line: string): void {
    this.#lines.push(line)
    this.#bytes += Buffer.byteLength(line)
  }

  isFull(): boolean {
    return this.#lines.length >= MAX_BATCH_ROWS || this.#bytes >= MAX_BATCH_BYTES
  }

  /** Returns the collected rows, or undefined if there are none. @throws BackupError if they belong to no table */
  take(): Batch | undefined {
    if (this.#lines.length === 0) return undefined
    if (this.table === undefined) throw new BackupError('The file is damaged: it has rows of no table')
    const batch = { table: this.table, lines: this.#lines }
    this.#lines = []
    this.#bytes = 0
    return batch
  }
}
