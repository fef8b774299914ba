/** `openapi`: prints the OpenAPI document of a version as a server with the default settings serves it. */
import { Command } from '@commander-js/extra-typings'
import { wholeNumber } from '@resource-api/cli'
import type { Database } from '@resource-api/database'
import { createDatabase, type DatabaseClient, runTransactionBody } from '@resource-api/database/client'
import { DEFAULT_SCHEMA } from '@resource-api/database/migrations'
import { type Config, readConfig } from '@resource-api/http/config'
import type { FastifyInstance } from 'fastify'

/**
 * Replaces the client of the database. Every query returns this row, so that `createFirstAdmin` finds an admin and creates
 * none; but the checks of views find no large table in the catalog.
 */
const stubClient: DatabaseClient = {
  kind: 'embedded',
  schema: DEFAULT_SCHEMA,
  run: async (text) => (text.includes('from pg_class') ? [] : [{ had_users: true, has_active_admin: true }]),
  transaction: (work) => runTransactionBody(stubClient.run, work),
  ping: async () => {},
  getLoad: () => ({ size: 0, used: 0, waiting: 0 }),
  estimateWait: () => 0,
  close: async () => {},
}

const UNUSED_SECRET = 'x'.repeat(32)
/** Builds the service. */
export type BuildApp = (config: Config, overrides: { database: Database }) => Promise<FastifyInstance>

/** Builds the service with the default settings and without a database, for what describes it. */
export function buildDocumentApp(buildApp: BuildApp): Promise<FastifyInstance> {
  // Not from the environment: the documents do not depend on it.
  const config = readConfig({ LOG_LEVEL: 'silent', APP_SECRET: UNUSED_SECRET, ADMIN_API_KEY: UNUSED_SECRET })
  return buildApp(config, { database: createDatabase(stubClient) })
}

/** Returns the document of each version as text. */
export async function renderDocuments(buildApp: BuildApp, wanted: readonly number[]): Promise<string[]> {
  const app = await buildDocumentApp(buildApp)
  try {
    const replies = await Promise.all(wanted.map((version) => app.inject(`/openapi/v${version}.json`)))
    return replies.map(({ payload }) => JSON.stringify(JSON.parse(payload), null, 2))
  } finally {
    await app.close()
  }
}

/**
 * @param load loads the service, which no other command needs
 * @param versionNumbers those of the API
 */
export const createOpenapiCommand = (load: () => Promise<BuildApp>, versionNumbers: readonly number[]) =>
  new Command('openapi')
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
    .action(async ({ version }) => console.log((await renderDocuments(await load(), [version])).join()))
