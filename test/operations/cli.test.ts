/** The commands print their result, explain errors, and set their exit code. */
import { type Test, test } from 'tap'
import { resources } from '../../src/app.ts'
import { commands } from '../../src/cli/commands.ts'
import { main } from '../../src/cli/main.ts'
import { testApp } from '../helpers/app.ts'
import { createDatabase, SERVER, testFolder } from '../helpers/database.ts'
import { createServerSettings, startModule, startServer } from '../helpers/process.ts'

const KEY = 'test-admin-key-test-admin-key-test-admin-key'
const SECRET = 'test-secret-test-secret-test-secret-test'

/** Types a command, with no settings but these. Within this process: starting another takes longer than what it does. */
async function type(t: Test, command: string, settings: NodeJS.ProcessEnv = {}) {
  const [out, err] = [t.capture(console, 'log'), t.capture(console, 'error')]
  const env = t.intercept(process, 'env', { value: settings })
  const code = await main(commands, command.split(' ').filter(Boolean))
  const text = (calls: typeof out) =>
    calls()
      .map(({ args }) => `${args[0]}\n`)
      .join('')
  const said = { code, out: text(out), err: text(err) }
  for (const undo of [out, err, env]) undo.restore()
  return said
}

test('--help lists every command, and no arguments show the help with exit code 2', async (t) => {
  const help = await type(t, '--help')
  t.equal(help.code, 0)
  for (const name of Object.keys(commands)) t.match(help.out, new RegExp(`^ {2}${name} `, 'm'))
  t.equal(help.err, '')
  const nothing = await type(t, '')
  t.equal(nothing.code, 2)
  t.equal(nothing.out, help.out)
  t.match((await type(t, '--version')).out, /^\d+\.\d+\.\d+/)
})

test('--help of each command explains it and does nothing', async (t) => {
  for (const name of Object.keys(commands)) {
    const { code, out } = await type(t, `${name} --help`)
    t.equal(code, 0, name)
    t.match(out, new RegExp(`^Usage: resource-api ${name}`, 'm'))
  }
  const { out } = await type(t, 'seed --help')
  t.match(out, /--users <n> .*default: 1000/)
  t.match(out, /another --seed adds more/, 'and says what happens the second time')
  const { out: keys } = await type(t, 'api-keys create --help')
  for (const { name } of resources) t.match(keys, `${name}:read, ${name}:write`)
})

test('unknown arguments are rejected with a hint and exit code 2', async (t) => {
  for (const [typed, message] of [
    ['sed', /^Unknown command 'sed'\.\nTry 'resource-api --help'\.$/m],
    ['seed --usres 5', /^Unknown option '--usres'\.\nTry 'resource-api seed --help'\.$/m],
    ['seed 1000', /^Unexpected argument '1000'\.$/m],
    ['seed --users', /'--users <value>' argument missing/],
    ['seed --users 1e3', /^--users must be a whole number from 1 to 10000000, not '1e3'\.$/m],
    ['seed --until 2026-02-30', /^--until must be a date such as .*, not '2026-02-30'\.$/m],
    ['openapi --version 3', /^--version must be a whole number from 1 to 2, not '3'\.$/m],
    ['constructor', /^Unknown command 'constructor'\.$/m],
  ] as const) {
    const { code, err, out } = await type(t, typed)
    t.equal(code, 2, typed)
    t.match(err, message)
    t.equal(out, '')
  }
})

test('the installed program runs the commands', async (t) => {
  const { output, ended } = startModule(t, 'cli.ts', {}, ['seed', '--usres', '5'])
  t.equal((await ended).code, 2)
  t.equal(output.err, "Unknown option '--usres'.\nTry 'resource-api seed --help'.\n")
})

test('a failing command says why, with exit code 1', async (t) => {
  const wrong = await type(t, 'migrate', { PORT: 'x', POOL_SIZE: '0' })
  t.equal(wrong.code, 1)
  t.match(wrong.err, /^Invalid settings:\n {2}PORT .*\n {2}POOL_SIZE .*\n$/)
  const away = await type(t, 'migrate', { DATABASE_URL: 'postgres://somebody:hunter2@127.0.0.1:1/there' })
  t.equal(away.code, 1)
  t.match(away.err, /^migrate failed: The database is unavailable/)
  t.notMatch(away.err, /hunter2/)
})

test('openapi prints the document of a server with the default settings, independent of the environment', async (t) => {
  // The address of a server with the default settings.
  const { anybody } = await testApp(t, { PUBLIC_URL: 'http://127.0.0.1:3000' })
  const { code, out, err } = await type(t, 'openapi --version 1', { NODE_ENV: 'production' })
  t.equal(code, 0, err)
  t.strictSame(JSON.parse(out), (await anybody.get('/openapi/v1.json')).body)
  const newest = await type(t, 'openapi')
  t.strictSame(
    JSON.parse(newest.out),
    (await anybody.get('/openapi/v2.json')).body,
    'the newest version by default',
  )
})

test('migrate, seed and serve work on an empty database', async (t) => {
  const settings = {
    ADMIN_API_KEY: KEY,
    PORT: '0',
    DATA_DIR: testFolder(t),
    ...(SERVER && { DATABASE_URL: await createDatabase(t, SERVER) }),
  }
  const migrated = await type(t, 'migrate', settings)
  t.equal(migrated.code, 0, migrated.err)
  t.match(migrated.out, /^Applied 0000_\w+\nApplied 0001_/)

  const seeded = await type(t, 'seed --users 10 --seed 3', settings)
  t.equal(seeded.code, 0, seeded.err)
  t.match(
    seeded.out,
    /^Added 10 users, 7 profiles, .*20 products and 50 orders with \d+ items: .* a second$/m,
  )
  const again = await type(t, 'seed --users 10 --seed 3', settings)
  t.equal(again.code, 1)
  t.match(again.err, /^seed failed: The database already contains data of seed 3/)

  const { child, output, ended } = startModule(t, 'cli.ts', settings, ['serve'])
  const url = await new Promise<string>((resolve, reject) => {
    child.stdout?.on('data', () => {
      const found = /Ready at (\S+),/.exec(output.out)?.[1]
      if (found) resolve(found)
    })
    void ended.then(() => reject(new Error(output.err)))
  })
  const reply = await fetch(`${url}/users?page=1`, { headers: { 'x-api-key': KEY } })
  t.match(await reply.json(), { pagination: { total: 11 } })
  child.kill('SIGTERM')
  t.same(await ended, { code: 0, signal: null }, 'and serve ends as the server does')
})

test('seed in production fails while no admin exists or can be created', async (t) => {
  const settings = { ...(await createServerSettings(t)), APP_SECRET: SECRET }
  const production = { NODE_ENV: 'production', INSECURE_HTTP: 'true' }
  const { code, err } = await type(t, 'seed --users 1', { ...settings, ...production })
  t.equal(code, 1)
  t.match(err, /^seed failed: There is no admin yet.*ADMIN_PASSWORD or ADMIN_API_KEY$/m)
})

const embedded = { skip: SERVER === undefined ? false : 'there is no folder' }
test('a folder in use by a server is named and not changed', embedded, async (t) => {
  const settings = await createServerSettings(t)
  const { child } = await startServer(t, { ...settings, LOG_LEVEL: 'silent' })
  const { code, err } = await type(t, 'seed --users 1', settings)
  t.equal(code, 1)
  t.match(
    err,
    `seed failed: The data folder ${settings.DATA_DIR} is in use by another process (pid ${child.pid})`,
  )
})
