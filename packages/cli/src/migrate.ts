/** `migrate`: applies the pending migrations without starting a server. */
import { Command } from '@commander-js/extra-typings'
import { migrate as applyMigrations } from '@resource-api/database'
import { readSchemaConfig, schemaOption, withOpenDatabase } from './database.ts'
import { jsonOption } from './json-option.ts'
import { printResult } from './print-rows.ts'

export const migrate = new Command('migrate')
  .description('Apply the pending migrations')
  .addOption(schemaOption)
  .addOption(jsonOption)
  .addHelpText(
    'after',
    `
The server applies them too when it starts, unless MIGRATE is false. Servers may run at the same
time. Creates the schema if it does not exist.`,
  )
  .action((options) => {
    const config = readSchemaConfig(options)
    return withOpenDatabase(config, async (database) => {
      const applied = await applyMigrations(database, { lockWaitMs: config.MIGRATION_TIMEOUT })
      const lines = applied.map((name) => `Applied ${name}`)
      printResult(options.json, { applied }, lines.join('\n') || 'The database is up to date')
    })
  })
