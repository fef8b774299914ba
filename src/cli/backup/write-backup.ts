/** Writes a backup into a file or a stream. A file gets its name when it is complete. */
import { createHash, randomBytes } from 'node:crypto'
import { createWriteStream, existsSync } from 'node:fs'
import { rename, rm } from 'node:fs/promises'
import { dirname } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { createGzip } from 'node:zlib'
import { ChecksumBuilder } from '../../../drizzle/backup/checksums.ts'
import type { Batch } from '../../../drizzle/backup/rows.ts'
import { syncFolder } from '../../../drizzle/client/embedded/durability.ts'
import { formatHeader, type Header } from './format.ts'

interface Backup {
  header: Omit<Header, 'format' | 'version'>
  rows: AsyncIterable<Batch>
}

async function* formatLines({ header, rows }: Backup): AsyncGenerator<string> {
  const total = createHash('sha256')
  const checksums = new ChecksumBuilder()
  const add = (text: string) => {
    total.update(text)
    return text
  }
  yield add(`${formatHeader(header)}\n`)
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
  pipeline(formatLines(backup), createGzip(), stream, { end: false })

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
    await pipeline(formatLines(backup), createGzip(), output)
    refuseExisting(file)
    await rename(draft, file)
    syncFolder(dirname(file))
    return output.bytesWritten
  } catch (error) {
    await rm(draft, { force: true })
    throw error
  }
}
