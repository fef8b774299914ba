/** What commands and servers do on a database that is empty, or lacks a migration. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { buildApp } from '../../../src/app.ts'
import type { Database } from '../../database/src/client/index.ts'
import { countPendingMigrations, getMigrationTimes, migrate } from '../../database/src/migrate.ts'
import { readConfig } from '../../http/src/config/read-config.ts'
import { createEmptyDatabase, runCommand } from '../../testing/helpers/command.ts'
import {
  createDatabase,
  openDatabase,
  SERVER,
  testFolder,
  withSchema,
} from '../../testing/helpers/database.ts'
import { startModule } from '../../testing/helpers/process.ts'
import { waitUntil } from '../../testing/helpers/time.ts'

const dataDir = testFolder(t)
const url = SERVER && (await createDatabase(t, SERVER))
const settings = {
  NODE_ENV: 'test',
  LOG_LEVEL: 'silent',
  DATA_DIR: dataDir,
  ...(url && { DATABASE_URL: url }),
}
const READS = ['users list', 'api-keys list']
const LACKS_ONE = "The database lacks 1 migration of this release: run 'npx resource-api migrate'"

const skip = SERVER ? 'a server has a database' : false

t.test('a command that reads creates no database', { skip }, async (t) => {
  const folder = testFolder(t)
  for (const command of READS) {
    const refused = { code: 1, err: `There is no database in ${folder}` }
    t.match(await runCommand(t, command, { ...settings, DATA_DIR: folder }), refused)
  }
  t.notOk(existsSync(join(folder, 'postgres')))
})

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
    out: /^failed +migrations +1 migration is pending, and MIGRATE is false\n +Run 'npx resource-api migrate'\.$/m,
  })
  t.equal(await withDatabase(countPendingMigrations), 1)

  t.match(await runCommand(t, 'migrate', fixed), { code: 0, out: /^Applied [\w-]+\n$/ })
  t.match(await runCommand(t, 'users list', fixed), { code: 0, err: 'None found\n' })
  await (await buildApp(readConfig(withSchema(fixed)))).close()
})

t.test('migrate and serve work on an empty database', async (t) => {
  const empty = await createEmptyDatabase(t)
  const migrated = await runCommand(t, 'migrate', empty)
  t.equal(migrated.code, 0, migrated.err)
  t.match(migrated.out, /^Applied \d{14}_product\nApplied \d{14}_shop\n/)

  const ADMIN_API_KEY = 'test-admin-key-test-admin-key-test-admin-key'
  const { child, output, ended } = startModule(t, 'cli.ts', { ...empty, ADMIN_API_KEY, PORT: '0' }, ['serve'])
  await waitUntil(() => output.out.includes('Ready at '))
  const url = /Ready at (\S+),/.exec(output.out)?.[1]
  const reply = await fetch(`${url}/users?page=1`, { headers: { 'x-api-key': ADMIN_API_KEY } })
  t.match(await reply.json(), { pagination: { total: 1 } })
  child.kill('SIGTERM')
  t.same(await ended, { code: 0, signal: null }, 'serve ends as the server does')
})
