/** `import`: creates or changes resources from the rows of a file, through the HTTP API. */
import { createReadStream } from 'node:fs'
import { stat } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { Command, Option } from '@commander-js/extra-typings'
import { jsonOption, printResult, type ServerOptions, urlOption, withProgress } from '@resource-api/cli'
import { identity } from '@resource-api/database'
import { COLLECTION_HELP, explain, FORMATS, type Format, openCollection } from './collection-rows.ts'

interface Options extends ServerOptions {
  file: string
  format: Format
  onConflict?: string
  dryRun?: true
  json?: true
}

async function importRows(
  collection: string,
  { file, format, onConflict, dryRun, json, ...server }: Options,
): Promise<void> {
  const { client, path, baseUrl } = openCollection(collection, server)
  const { size } = await stat(file)
  try {
    const counts = await withProgress('bytes', size, (add) => {
      async function* readBytes() {
        for await (const chunk of createReadStream(file)) {
          add(chunk.length)
          yield chunk
        }
      }
      const rows = Readable.toWeb(Readable.from(readBytes(), { objectMode: false }))
      return client.importPath(path, rows, { format, onConflict, dryRun })
    })
    const prefix = dryRun ? 'Nothing was written. ' : ''
    const { created, updated, unchanged } = counts
    printResult(json, counts, `${prefix}${created} created, ${updated} updated, ${unchanged} unchanged`)
  } catch (error) {
    throw explain(error, baseUrl)
  }
}

export const importCommand = new Command('import')
  .description('Create or change resources from the rows of a file, all or none')
  .argument('<collection>', COLLECTION_HELP)
  .requiredOption('--file <file>', 'The file with the rows')
  .addOption(urlOption)
  .option('--key <key>', `An API key (default: ${identity.keyVariable})`)
  .addOption(
    new Option('--format <format>', 'The form of the rows').choices(FORMATS).default('ndjson' as const),
  )
  .option('--on-conflict <field>', 'A unique field: rows whose resources exist change them')
  .option('--dry-run', 'Check all rows and write nothing')
  .addOption(jsonOption)
  .action(importRows)
