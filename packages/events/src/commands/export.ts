/** `export`: writes all resources of a list to a file or to standard output, through the HTTP API. */
import { createWriteStream } from 'node:fs'
import { rename, rm } from 'node:fs/promises'
import { Readable, Transform, type Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { Command, Option } from '@commander-js/extra-typings'
import { type ServerOptions, UsageError, urlOption } from '@resource-api/cli'
import { identity } from '@resource-api/database'
import { COLLECTION_HELP, explain, FORMATS, type Format, openCollection } from './collection-rows.ts'

const PROGRESS_INTERVAL_MS = 200
const CLEAR_LINE = '\r\x1b[K'

interface Options extends ServerOptions {
  format: Format
  filter: string[]
  output?: string
}

/** Returns the query string of `name=value` arguments. @throws UsageError */
function readFilters(filters: readonly string[]): Record<string, string> {
  const entries = filters.map((each) => {
    const [, name, value] = /^([\w.]+)=(.+)$/s.exec(each) ?? []
    if (name === undefined || value === undefined)
      throw new UsageError(`--filter ${each}: must be name=value, such as status=active`)
    return [name, value] as const
  })
  return Object.fromEntries(entries)
}

/** Passes bytes on, and shows on a terminal how many there were. */
function countBytes(): Transform {
  const { stderr } = process
  let bytes = 0
  let printedAt = 0
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      bytes += chunk.length
      if (stderr.isTTY && performance.now() - printedAt > PROGRESS_INTERVAL_MS) {
        printedAt = performance.now()
        stderr.write(`${CLEAR_LINE}${(bytes / 1_048_576).toFixed(1)} MiB`)
      }
      done(null, chunk)
    },
    flush(done) {
      if (stderr.isTTY) stderr.write(CLEAR_LINE)
      done()
    },
  })
}

/** Writes to a file that gets its name when it is complete. */
async function writeFile(path: string, write: (target: Writable) => Promise<void>): Promise<void> {
  const part = `${path}.part`
  try {
    await write(createWriteStream(part))
    await rename(part, path)
  } catch (error) {
    await rm(part, { force: true })
    throw error
  }
}

async function exportRows(collection: string, { format, filter, output, ...server }: Options): Promise<void> {
  const query = readFilters(filter)
  const { client, path, baseUrl } = openCollection(collection, server)
  const write = async (target: Writable, isEnded: boolean) => {
    const bytes = await client.exportPath(path, query, { format })
    await pipeline(Readable.fromWeb(bytes), countBytes(), target, { end: isEnded })
  }
  try {
    if (output === undefined) await write(process.stdout, false)
    else await writeFile(output, (target) => write(target, true))
  } catch (error) {
    throw explain(error, baseUrl)
  }
}

export const exportCommand = new Command('export')
  .description('Write all resources of a list to a file or to standard output')
  .argument('<collection>', COLLECTION_HELP)
  .addOption(urlOption)
  .option('--key <key>', `An API key (default: ${identity.keyVariable})`)
  .addOption(
    new Option('--format <format>', 'The form of the rows').choices(FORMATS).default('ndjson' as const),
  )
  .option(
    '--filter <name=value>',
    'A parameter of the list, such as status=active or sort=name; may be repeated',
    (value: string, former: string[]) => [...former, value],
    [] as string[],
  )
  .option('--output <file>', 'The file; it gets its name when it is complete')
  .addHelpText(
    'after',
    `
An argument is visible to every user in 'ps': set ${identity.keyVariable} instead of --key. If the connection ends before
the last row, the command fails, and leaves no file.`,
  )
  .action(exportRows)
