/** `migrate`: applies the pending migrations without starting a server. */
import { readConfig } from '../config.ts'
import type { Command } from './command.ts'
import { withDatabase } from './open.ts'

export const migrate: Command = {
  summary: 'Apply the pending migrations',
  details: `The server applies them too when it starts. On PostgreSQL, servers may run at the same time; the embedded
database (DATA_DIR) can be open in one process only.`,
  options: {},
  run: () =>
    withDatabase(readConfig(), async (_database, applied) => {
      for (const name of applied) console.log(`Applied ${name}`)
      if (applied.length === 0) console.log('The database is up to date')
    }),
}
