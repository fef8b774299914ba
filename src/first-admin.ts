/** Makes and announces the first admin: before the first user, be it of a person or of the demo data. */

import type { Database } from '../drizzle/client/index.ts'
import { bootstrap } from '../plugins/auth/bootstrap.ts'
import { announce } from './announce.ts'
import type { Config } from './config.ts'

export async function firstAdmin(config: Config, database: Database): Promise<void> {
  const options = {
    email: config.ADMIN_EMAIL,
    password: config.ADMIN_PASSWORD,
    hasKey: config.ADMIN_API_KEY !== undefined,
    canGenerate: config.NODE_ENV !== 'production',
  }
  await bootstrap(database, options, (made) => announce(config, made))
}
