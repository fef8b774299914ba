/** The process list and pg_stat_activity show no credential of the service or its commands. */

import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { setTimeout as wait } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { ADMIN_KEY, createClient, type Json, type Reply, testApp } from '../helpers/app.ts'
import { openDatabase, SERVER, testDatabaseUrl } from '../helpers/database.ts'
import { createServerSettings, SHORT_RUN, startModule, startServer } from '../helpers/process.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const PASSWORD = 'canary-typed-password'
const SECRETS = {
  ADMIN_API_KEY: 'canary-admin-key-0123456789-0123456789',
  ADMIN_PASSWORD: 'canary-admin-password',
  APP_SECRET: 'canary-app-secret-0123456789-0123456789',
  METRICS_TOKEN: 'canary-metrics-token',
}

const text = (file: string) => {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return ''
  }
}

/** What `ps` shows to anybody of a process, its threads and its children. */
function shownOf(pid: number | string): string {
  const tasks = readdirSync(`/proc/${pid}/task`)
  const children = tasks.flatMap((task) =>
    text(`/proc/${pid}/task/${task}/children`).split(' ').filter(Boolean),
  )
  const names = tasks.map((task) => text(`/proc/${pid}/task/${task}/comm`))
  return [text(`/proc/${pid}/cmdline`), ...names, ...children.map(shownOf)].join('\n')
}

/** The settings, with a password in DATABASE_URL where there is one; trust asks for none, and takes any. */
async function settingsOf(t: Test): Promise<NodeJS.ProcessEnv> {
  const settings: NodeJS.ProcessEnv = { ...(await createServerSettings(t)), ...SECRETS }
  if (settings.DATABASE_URL === undefined) return settings
  const url = new URL(settings.DATABASE_URL)
  url.password ||= 'canary-database-password'
  return { ...settings, DATABASE_URL: url.href }
}

/** @param what is looked at as often as it can be, until the process has ended */
async function watch(pid: number, ended: Promise<unknown>): Promise<string[]> {
  const seen = new Set<string>()
  let over = false
  void ended.then(() => {
    over = true
  })
  while (!over) {
    try {
      seen.add(shownOf(pid))
    } catch {
      // It ended while it was looked at.
    }
    await wait(10)
  }
  return [...seen]
}

function clean(t: Test, name: string, shown: readonly string[]) {
  t.ok(shown.length > 0 && shown.some((one) => one.includes(process.execPath)), `${name} was looked at`)
  t.notMatch(shown.join('\n'), /canary-/, `${name} shows nothing`)
  t.notMatch(shown.join('\n'), /rak_|"d":/, `${name} shows nothing that it made`)
}

const linux = { skip: process.platform === 'linux' ? false : 'there is no /proc' }

t.test('the process list contains no credential', linux, async (t) => {
  const settings = await settingsOf(t)
  const user = (email: string) => ['users', 'create', '--email', email, '--name', 'Ada']

  await t.test('of a command that reads a password from a pipe', async (t) => {
    const { child, output, ended } = startModule(t, 'cli.ts', settings, user('ada@example.com'), SHORT_RUN)
    child.stdin?.write(PASSWORD)
    const watching = watch(child.pid ?? 0, ended)
    child.stdin?.end('\n')
    const shown = await watching
    t.equal((await ended).code, 0, output.err)
    clean(t, 'users create', shown)
    t.notMatch(output.out + output.err, /canary-/)
  })

  const script = spawnSync('script', ['--version']).status === 0 ? false : 'there is no script(1)'
  const onTerminal = async (t: Test, email: string, typed: string) => {
    const command = ['--import=./test/helpers/typescript.js', 'src/cli.ts', ...user(email)].join(' ')
    const child = spawn('script', ['-qefc', `exec ${process.execPath} ${command}`, '/dev/null'], {
      cwd: root,
      env: { PATH: process.env.PATH, ...settings },
    })
    t.teardown(() => child.kill('SIGKILL'))
    let said = ''
    child.stdout.setEncoding('utf8').on('data', (part: string) => {
      // At the very moment of the question, faster than any person.
      if (!said.includes('Password') && `${said}${part}`.includes('Password')) child.stdin.write(typed)
      said += part
    })
    const ended = once(child, 'close')
    const shown = await watch(child.pid ?? 0, ended)
    return { code: (await ended)[0], said, shown }
  }

  await t.test(
    'of a command that asks for a password on a terminal, without echo',
    { skip: script },
    async (t) => {
      const { code, said, shown } = await onTerminal(t, 'bob@example.com', `${PASSWORD}\r`)
      t.equal(code, 0, said)
      t.match(said, /Password .*:(.|\s)*Created the member bob@example.com/)
      t.notMatch(said, /canary-/, 'what is typed is not shown')
      clean(t, 'users create', shown)
    },
  )

  await t.test('Ctrl+C at the password prompt creates no user', { skip: script }, async (t) => {
    const { code, said } = await onTerminal(t, 'eve@example.com', 'canary-half\u0003')
    t.equal(code, 1)
    t.match(said, 'users create failed: Interrupted; nothing was changed')
    t.notMatch(said, /Made|canary-/)
  })

  await t.test('of the commands that create credentials', async (t) => {
    for (const args of [
      ['api-keys', 'create', '--email', 'ada@example.com', '--name', 'k'],
      ['signing-keys', 'rotate'],
    ]) {
      const { child, output, ended } = startModule(t, 'cli.ts', settings, args, SHORT_RUN)
      const shown = await watch(child.pid ?? 0, ended)
      t.equal((await ended).code, 0, output.err)
      clean(t, args.join(' '), shown)
      t.notMatch(output.err, /canary-|rak_[\w-]{20}|"d"/, 'and says it on standard output alone')
    }
  })

  await t.test('of the server', async (t) => {
    const { child, url, output } = await startServer(t, { ...settings, LOG_LEVEL: 'trace' })
    const grant = { grant_type: 'password', email: 'ada@example.com', password: PASSWORD }
    const signedIn = await createClient(url, {}).post('/tokens', grant)
    t.equal(signedIn.status, 201, signedIn.text)
    clean(t, 'the server', [shownOf(child.pid ?? 0)])
    t.notMatch(output.out + output.err, /canary-/)
  })
})

t.test('no command accepts a password as an argument, and the error says how to pass it', async (t) => {
  for (const args of [['--password', PASSWORD], [`--password=${PASSWORD}`], ['--password']]) {
    const { output, ended } = startModule(t, 'cli.ts', {}, [
      'users',
      'create',
      '--email',
      'a@example.com',
      ...args,
    ])
    t.equal((await ended).code, 2)
    t.match(output.err, /^error: Do not pass a password as an argument, .*standard input/)
    t.notMatch(output.out + output.err, /canary-/)
  }
})

const server = { skip: SERVER ? false : 'the embedded database has no other sessions: set DATABASE_URL' }

t.test('pg_stat_activity contains no credential', server, async (t) => {
  const { url } = await testDatabaseUrl(t)
  const { admin, anybody, base } = await testApp(t, {}, { database: await openDatabase({ url }) })
  const other = await openDatabase({ url, poolSize: 2 })
  t.teardown(() => other.close())
  const statements = new Set<string>()
  const look = async () => {
    const rows = await other.run(
      `select application_name, query, wait_event_type from pg_stat_activity
       where datname = current_database() and pid <> pg_backend_pid()`,
    )
    for (const { application_name, query } of rows) statements.add(`${application_name}: ${query}`)
    return rows.some((row) => row.wait_event_type === 'Lock')
  }
  /** A call whose first statement on that table is held back until it was looked at. */
  const held = async (table: string, call: () => Promise<Reply>): Promise<Json> => {
    const calling = await other.transaction(async (tx) => {
      await tx.run(`lock table ${table}`)
      const begun = call()
      while (!(await look())) await wait(5)
      // Within an array: a promise alone would be waited for here.
      return [begun]
    })
    const [reply] = await Promise.all(calling)
    t.match(reply?.status, /^20[01]$/, `${reply?.text}`)
    await look()
    return reply?.body.data
  }
  const email = 'canary@example.com'
  const grant = { grant_type: 'password', email, password: PASSWORD }
  await held('users', () => admin.post('/users', { name: 'C', email, password: PASSWORD }))
  const { refresh_token, access_token } = await held('users', () => anybody.post('/tokens', grant))
  const again = { grant_type: 'refresh_token', refresh_token }
  const renewed = await held('sessions', () => anybody.post('/tokens', again))
  const me = createClient(base, { authorization: `Bearer ${access_token}` })
  const { key } = await held('api_keys', () => me.post('/api-keys', { name: 'k', scopes: ['*'] }))
  await held('api_keys', () => createClient(base, { 'x-api-key': key }).get('/products'))
  const secrets = [PASSWORD, ADMIN_KEY, refresh_token, access_token, key]
  secrets.push(renewed.refresh_token, renewed.access_token)
  const all = [...statements].join('\n')
  t.match(all, /from "sign_in_addresses" inner join "users"/, 'signing in was seen')
  t.match(all, /"refresh_hash" = \$\d/, 'and refreshing')
  t.match(all, /from "api_keys" where "api_keys"."user_id" = \$1/, 'and a key that was made')
  t.match(all, /"key_hash" = \$1/, 'and used')
  for (const secret of secrets) t.notOk(all.includes(secret))
  t.notMatch(all, /\$argon2|[0-9a-f]{64}/, 'nor is a hash of one')
})
