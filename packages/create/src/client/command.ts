/** `resource-api client`: writes the typed client of an application, or of a running server. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { UsageError } from '../usage-error.ts'
import { readDocument } from './read-document.ts'

const HELP = `Writes the typed client of the application, from the OpenAPI document of version 1.

  npx resource-api client --output src/client.ts

  --output FILE  the TypeScript to write; the project that has it needs the package @resource-api/client
  --url URL      of a running server, such as http://localhost:3000, instead of the application in this folder
  --help`

/** The first words of a file that this command has written. */
const MARK = '// Written by `npx resource-api client`'

/** @throws UsageError if the command line is wrong, or the file is one that this command has not written */
export async function createClientFile(args: readonly string[], root: string): Promise<void> {
  const { values } = parseArgs({
    args: [...args],
    options: { output: { type: 'string' }, url: { type: 'string' }, help: { type: 'boolean', short: 'h' } },
  })
  if (values.help) return console.log(HELP)
  if (!values.output?.endsWith('.ts')) throw new UsageError(`--output: name a file *.ts\n\n${HELP}`)
  const file = resolve(root, values.output)
  if (existsSync(file) && !readFileSync(file, 'utf8').startsWith(MARK))
    throw new UsageError(`${file} exists, and this command has not written it: name another file`)
  const document = await readDocument(root, values.url)
  // With the compiler, it takes a second to load.
  const { writeClient } = await import('./write-client.ts')
  const text = await writeClient(document)
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, text)
  console.log(`Wrote ${values.output}`)
}
