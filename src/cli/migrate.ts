/** `migrate`: applies the pending migrations without starting a server. */
import type { Command } from './command.ts'
import { withDatabase } from './open.ts'
import { readSchemaConfig, SCHEMA_OPTION } from './schema-option.ts'

export const migrate: Command = {
  summary: 'Apply the pending migrations',
  details: `The server applies them too when it starts. On PostgreSQL, servers may run at the same time; the embedded
database (DATA_DIR) can be open in one process only. Creates the schema if it does not exist.`,
  options: { schema: SCHEMA_OPTION },
  run: (values) =>
    withDatabase(readSchemaConfig(values), async (_database, applied) => {
      for (const name of applied) console.log(`Applied ${name}`)
      if (applied.length === 0) console.log('The database is up to date')
    }),
}
