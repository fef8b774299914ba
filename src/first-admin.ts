/** Creates and announces the first admin, before sign-up or demo data creates any other user. */
import type { Database } from '../drizzle/client/index.ts'
import { bootstrap } from '../plugins/auth/bootstrap.ts'
import { announceCredentials } from './announce.ts'
import type { Config } from './config.ts'

export async function createFirstAdmin(config: Config, database: Database): Promise<void> {
  const options = {
    email: config.ADMIN_EMAIL,
    password: config.ADMIN_PASSWORD,
    hasKey: config.ADMIN_API_KEY !== undefined,
    canGenerate: config.NODE_ENV !== 'production',
  }
  await bootstrap(database, options, (credentials) => announceCredentials(config, credentials))
}
