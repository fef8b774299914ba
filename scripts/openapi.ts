/** `npm run openapi`: writes the OpenAPI documents, and what the client has from them. */
import '../src/application.ts'
import { writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { renderDocuments } from '@resource-api/docs/commands'
import { buildApp } from '../src/app.ts'
import { versionNumbers } from '../src/resources.ts'
import { updateClient } from './client.ts'

const root = fileURLToPath(new URL('..', import.meta.url))

/** Writes all of them in this process: each process that loads the service needs 2 s of CPU for that. */
export async function writeDocuments(): Promise<void> {
  const documents = await renderDocuments(buildApp, versionNumbers)
  for (const [i, text] of documents.entries())
    writeFileSync(`${root}docs/openapi/v${versionNumbers[i]}.json`, `${text}\n`)
  await updateClient()
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await writeDocuments()
