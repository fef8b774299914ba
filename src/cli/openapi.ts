/** `openapi`: prints the OpenAPI document of a version as a server with the default settings serves it. */

import { Command } from '@commander-js/extra-typings'
import { createDatabase } from '../../drizzle/client/database.ts'
import type { DatabaseClient } from '../../drizzle/client/index.ts'
import { DEFAULT_SCHEMA } from '../../drizzle/client/schema.ts'
import { runTransactionBody } from '../../drizzle/client/transaction.ts'
import { versions } from '../../plugins/versioning/index.ts'
import { readConfig } from '../config.ts'
import { wholeNumber } from './usage-error.ts'

/** Replaces the client of the database. Every query returns this row, so that `createFirstAdmin` finds an admin and creates none. */
const stubClient: DatabaseClient = {
  kind: 'embedded',
  schema: DEFAULT_SCHEMA,
  run: async () => [{ had_users: true, has_active_admin: true }],
  transaction: (work) => runTransactionBody(stubClient.run, work),
  ping: async () => {},
  getLoad: () => ({ size: 0, used: 0, waiting: 0 }),
  estimateWait: () => 0,
  close: async () => {},
}

const UNUSED_SECRET = 'x'.repeat(32)
export const versionNumbers = versions.map(({ representation }) => representation.version)

/** Builds the service with the default settings and without a database, for what describes it. */
export async function buildDocumentApp() {
  // Not from the environment: the documents do not depend on it.
  const config = readConfig({ LOG_LEVEL: 'silent', APP_SECRET: UNUSED_SECRET, ADMIN_API_KEY: UNUSED_SECRET })
  // Loaded here because no other command needs the whole service.
  const { buildApp } = await import('../app.ts')
  return buildApp(config, { database: createDatabase(stubClient) })
}

/** Returns the document of each version as text. */
export async function renderDocuments(wanted: readonly number[]): Promise<string[]> {
  const app = await buildDocumentApp()
  try {
    const replies = await Promise.all(wanted.map((version) => app.inject(`/openapi/v${version}.json`)))
    return replies.map(({ payload }) => JSON.stringify(JSON.parse(payload), null, 2))
  } finally {
    await app.close()
  }
}

export const openapi = new Command('openapi')
  .description('Print the OpenAPI document of a version')
  .option(
    '--version <n>',
    `The version: ${versionNumbers.join(' or ')}`,
    wholeNumber(Math.min(...versionNumbers), Math.max(...versionNumbers)),
    Math.max(...versionNumbers),
  )
  .addHelpText(
    'after',
    `
Writes JSON to standard output: the document that a server with the default settings returns for GET /openapi/v{n}.json.`,
  )
  .action(async ({ version }) => console.log((await renderDocuments([version])).join()))
