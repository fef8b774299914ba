/** Commands in processes, on an empty database, and in production. */
import { test } from 'tap'
import { createEmptyDatabase, runCommand } from '../helpers/command.ts'
import { createServerSettings, startModule } from '../helpers/process.ts'

const KEY = 'test-admin-key-test-admin-key-test-admin-key'
const SECRET = 'test-secret-test-secret-test-secret-test'

test('the installed program runs the commands', async (t) => {
  const { output, ended } = startModule(t, 'cli.ts', {}, ['seed', '--usres', '5'])
  t.equal((await ended).code, 2)
  t.match(output.err, "error: unknown option '--usres'")
})

test('migrate and seed work on an empty database, and the same data is seeded once', async (t) => {
  const settings = await createEmptyDatabase(t)
  const migrated = await runCommand(t, 'migrate', settings)
  t.equal(migrated.code, 0, migrated.err)
  t.match(migrated.out, /^Applied \d{14}_product\nApplied \d{14}_fixtures\n/)
  const seed = () => runCommand(t, 'seed --users 10 --seed 3', { ...settings, ADMIN_API_KEY: KEY })
  t.match(await seed(), { code: 0, out: /^Added 10 users,/m })
  t.match(await seed(), { code: 1, err: /^seed failed: The database already contains data of seed 3/ })
})

test('seed in production fails while no admin exists or can be created', async (t) => {
  const settings = { ...(await createServerSettings(t)), APP_SECRET: SECRET }
  const production = { NODE_ENV: 'production', INSECURE_HTTP: 'true' }
  t.match(await runCommand(t, 'seed --users 1', { ...settings, ...production }), {
    code: 1,
    err: /^seed failed: There is no admin yet.*ADMIN_PASSWORD or ADMIN_API_KEY$/m,
  })
})
