/**
 * A backup file: lines of JSON, compressed with gzip. The first line is the header. Then each table has a line with its
 * name, and a line for each row (`readRows` of `@resource-api/database`). The last line has the checksums.
 */
import { createHash, randomBytes } from 'node:crypto'
import { createReadStream, createWriteStream, existsSync } from 'node:fs'
import { rename, rm } from 'node:fs/promises'
import { dirname } from 'node:path'
import { pipeline } from 'node:stream'
import { pipeline as pipelineToEnd } from 'node:stream/promises'
import { createGunzip, createGzip } from 'node:zlib'
import { getErrorCode } from '@resource-api/database'
import {
  type Batch,
  ChecksumBuilder,
  type Checksums,
  findDifferences,
  MAX_BATCH_BYTES,
  MAX_BATCH_ROWS,
  readChecksums,
} from '@resource-api/database/backup'
import { syncFolder } from '@resource-api/database/files'
import { type Static, type TSchema, Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'

/** The same whatever the name of the product, so that a rename keeps its backups. */
const FORMAT = 'database backup'
/** Incremented by a change that older releases cannot read. */
const FORMAT_VERSION = 1

/** What the header of every version of the format has. */
const FormatMark = Type.Object({ format: Type.Literal(FORMAT), version: Type.Integer() })

const Header = Type.Object({
  release: Type.String(),
  /** RFC 3339, UTC. */
  created_at: Type.String(),
  database: Type.Union([Type.Literal('embedded'), Type.Literal('server')]),
  migrations: Type.Array(Type.Integer()),
  /** The columns are in the order of the values in a row. */
  tables: Type.Array(
    Type.Object({ name: Type.String(), columns: Type.Array(Type.String()), rows: Type.Integer() }),
  ),
  sequences: Type.Array(
    Type.Object({ name: Type.String(), next: Type.String({ pattern: '^-?[0-9]{1,19}$' }) }),
  ),
  /** The secret that is kept in `DATA_DIR`, if it is included. */
  app_secret: Type.Optional(Type.String({ minLength: 32 })),
})

export type Header = Static<typeof Header>

const TableMark = Type.Object({ table: Type.String() })

const Trailer = Type.Object({
  checksums: Type.Record(Type.String(), Type.Object({ rows: Type.Integer(), sha256: Type.String() })),
  /** Of all lines before, each with its line feed. */
  sha256: Type.String(),
})

interface Backup {
  header: Header
  rows: AsyncIterable<Batch>
}

async function* formatLines({ header, rows }: Backup): AsyncGenerator<string> {
  const total = createHash('sha256')
  const checksums = new ChecksumBuilder()
  const add = (text: string) => {
    total.update(text)
    return text
  }
  const mark: Static<typeof FormatMark> = { format: FORMAT, version: FORMAT_VERSION }
  yield add(`${JSON.stringify({ ...mark, ...header })}\n`)
  let name: string | undefined
  for await (const batch of rows) {
    checksums.add(batch)
    if (batch.table !== name) {
      name = batch.table
      yield add(`${JSON.stringify({ table: name })}\n`)
    }
    yield add(`${batch.lines.join('\n')}\n`)
  }
  yield `${JSON.stringify({ checksums: checksums.build(), sha256: total.digest('hex') })}\n`
}

/** Writes the backup into a stream, which is not ended. */
export const writeStream = (stream: NodeJS.WritableStream, backup: Backup): Promise<void> =>
  pipelineToEnd(formatLines(backup), createGzip(), stream, { end: false })

/** @throws Error if the file exists */
export function refuseExisting(file: string): void {
  if (existsSync(file)) throw new Error(`${file} already exists; choose another name, or move the file away`)
}

/**
 * Writes the backup into a new file that only its owner can read. Until it is complete and on the disk, it has another
 * name, which ends with `.part`.
 * @returns the size of the file, in bytes
 */
export async function writeFile(file: string, backup: Backup): Promise<number> {
  const draft = `${file}.${randomBytes(4).toString('hex')}.part`
  try {
    const output = createWriteStream(draft, { flags: 'wx', mode: 0o600, flush: true })
    await pipelineToEnd(formatLines(backup), createGzip(), output)
    refuseExisting(file)
    await rename(draft, file)
    syncFolder(dirname(file))
    return output.bytesWritten
  } catch (error) {
    await rm(draft, { force: true })
    throw error
  }
}

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
 * Opens a backup, reads it to its end and compares its checksums.
 * @throws BackupError if the file is not a complete backup
 */
export async function readBackup(file: string): Promise<BackupFile> {
  const header = await readHeader(file)
  let sha256: string | undefined
  const readRows = async function* () {
    const { sha256: current } = yield* readBatches(file, header)
    sha256 ??= current
    if (sha256 !== current) throw new BackupError('The file was changed while it was read')
  }
  return { header, checksums: await readChecksums(readRows()), readRows }
}

/** Splits the uncompressed text into lines. @throws BackupError if it is not gzip, damaged or incomplete */
async function* readLines(file: string): AsyncGenerator<string> {
  // The error is that of the iteration.
  const text = pipeline(createReadStream(file), createGunzip(), () => undefined)
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
    const code = getErrorCode(error)
    if (code === 'Z_BUF_ERROR') throw new BackupError('The file is incomplete', { cause: error })
    if (!code?.startsWith('Z_')) throw error
    throw new BackupError('The file is damaged, or is not a backup', { cause: error })
  }
  if (length > 0) throw new BackupError('The file is incomplete')
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
  const total = createHash('sha256')
  const checksums = new ChecksumBuilder()
  let trailer: Static<typeof Trailer> | undefined
  let isHeader = true
  let table: string | undefined
  let lines: string[] = []
  let bytes = 0
  const takeBatch = (): Batch[] => {
    if (lines.length === 0) return []
    if (table === undefined) throw new BackupError('The file is damaged: it has rows of no table')
    const batch = { table, lines }
    checksums.add(batch)
    lines = []
    bytes = 0
    return [batch]
  }
  for await (const line of readLines(file)) {
    if (trailer) throw new BackupError('The file is damaged: it goes on after its end')
    if (line.startsWith('[')) {
      lines.push(line)
      bytes += Buffer.byteLength(line)
      if (lines.length >= MAX_BATCH_ROWS || bytes >= MAX_BATCH_BYTES) yield* takeBatch()
    } else if (!isHeader) {
      yield* takeBatch()
      trailer = parse(Trailer, line)
      table = parse(TableMark, line)?.table
      if (!trailer && !header.tables.some(({ name }) => name === table))
        throw new BackupError('The file is damaged: it has a table that its header does not name')
    }
    if (!trailer) total.update(line).update('\n')
    isHeader = false
  }
  if (!trailer) throw new BackupError('The file is incomplete')
  const isIntact =
    trailer.sha256 === total.digest('hex') &&
    findDifferences(trailer.checksums, checksums.build()).length === 0
  if (!isIntact) throw new BackupError('The file is damaged: its checksum differs')
  return trailer
}
