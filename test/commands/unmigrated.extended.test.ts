/** Where migrations are pending, commands that read and a server with MIGRATE=false change nothing and say what to do. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { Database } from '../../drizzle/client/index.ts'
import { countPendingMigrations, getMigrationTimes, migrate } from '../../drizzle/migrate.ts'
import { buildApp } from '../../src/app.ts'
import { readConfig } from '../../src/config.ts'
import { runCommand } from '../helpers/command.ts'
import { createDatabase, openDatabase, SERVER, testFolder, withSchema } from '../helpers/database.ts'

const dataDir = testFolder(t)
const url = SERVER && (await createDatabase(t, SERVER))
const settings = {
  NODE_ENV: 'test',
  LOG_LEVEL: 'silent',
  DATA_DIR: dataDir,
  ...(url && { DATABASE_URL: url }),
}
const READS = ['users list', 'api-keys list']
const LACKS_ONE = "The database lacks 1 migration of this release: run 'resource-api migrate'"

t.test(
  'a command that reads creates no database',
  { skip: SERVER ? 'a server has one' : false },
  async (t) => {
    for (const command of READS) {
      const refused = { code: 1, err: `There is no database in ${dataDir}` }
      t.match(await runCommand(t, command, settings), refused)
    }
    t.notOk(existsSync(join(dataDir, 'postgres')))
  },
)

t.test('nothing is migrated by commands that read, nor with MIGRATE=false', async (t) => {
  const withDatabase = async <T>(work: (database: Database) => Promise<T>) => {
    const database = await openDatabase(url ? { url } : { dataDir })
    try {
      return await work(database)
    } finally {
      await database.close()
    }
  }
  await withDatabase((database) => migrate(database, { only: new Set(getMigrationTimes().slice(0, -1)) }))

  for (const command of READS)
    t.strictSame(await runCommand(t, command, settings), {
      code: 1,
      out: '',
      err: `${command} failed: ${LACKS_ONE}\n`,
    })
  const fixed = { ...settings, MIGRATE: 'false' }
  await t.rejects(buildApp(readConfig(withSchema(fixed))), { message: LACKS_ONE })
  t.match(await runCommand(t, 'users confirm-email a@example.com', fixed), {
    code: 1,
    err: `users confirm-email failed: ${LACKS_ONE}\n`,
  })
  t.match(await runCommand(t, 'doctor', fixed), {
    code: 1,
    out: /^failed +migrations +1 migration is pending, and MIGRATE is false\n +Run 'resource-api migrate'\.$/m,
  })
  t.equal(await withDatabase(countPendingMigrations), 1)

  t.match(await runCommand(t, 'migrate', fixed), { code: 0, out: /^Applied [\w-]+\n$/ })
  t.match(await runCommand(t, 'users list', fixed), { code: 0, err: 'None found\n' })
  await (await buildApp(readConfig(withSchema(fixed)))).close()
})
