/** `migrate`: applies the pending migrations without starting a server. */
import { migrate as applyMigrations } from '../../drizzle/migrate.ts'
import type { Command } from './command.ts'
import { withOpenDatabase } from './open.ts'
import { readSchemaConfig, SCHEMA_OPTION } from './schema-option.ts'

export const migrate: Command = {
  summary: 'Apply the pending migrations',
  details: `The server applies them too when it starts, unless MIGRATE is false. On PostgreSQL, servers may run at the same
time; the embedded database (DATA_DIR) can be open in one process only. Creates the schema if it does not exist.`,
  options: { schema: SCHEMA_OPTION },
  run(values) {
    const config = readSchemaConfig(values)
    return withOpenDatabase(config, async (database) => {
      const applied = await applyMigrations(database, { lockWaitMs: config.MIGRATION_TIMEOUT })
      for (const name of applied) console.log(`Applied ${name}`)
      if (applied.length === 0) console.log('The database is up to date')
    })
  },
}
