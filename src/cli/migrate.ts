/** `migrate`: the tables of this build, without a server. */
import { readConfig } from '../config.ts'
import type { Command } from './command.ts'
import { withDatabase } from './open.ts'

export const migrate: Command = {
  summary: 'Bring the database to the tables of this version',
  details: `The server does the same when it starts; this is for those who want it done before. It may run beside
servers on PostgreSQL; the embedded database (DATA_DIR) belongs to one process at a time.`,
  options: {},
  run: () =>
    withDatabase(readConfig(), async (_database, applied) => {
      for (const name of applied) console.log(`Applied ${name}`)
      if (applied.length === 0) console.log('Nothing to do: the database is up to date')
    }),
}
