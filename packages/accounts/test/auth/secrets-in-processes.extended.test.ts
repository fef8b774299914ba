/** The process list and pg_stat_activity show no credential of the service or its commands. */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { setTimeout as wait } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { ADMIN_KEY, createClient, type Json, type Reply, testApp } from '../../../testing/helpers/app.ts'
import { openDatabase, SERVER, testDatabaseUrl } from '../../../testing/helpers/database.ts'
import {
  createServerSettings,
  SHORT_RUN,
  SOURCE_FLAGS,
  startModule,
  startServer,
} from '../../../testing/helpers/process.ts'

const root = fileURLToPath(new URL('../../../..', import.meta.url))
const PASSWORD = 'canary-typed-password'
const SECRETS = {
  ADMIN_API_KEY: 'canary-admin-key-0123456789-0123456789',
  ADMIN_PASSWORD: 'canary-admin-password',
  APP_SECRET: 'canary-app-secret-0123456789-0123456789',
  METRICS_TOKEN: 'canary-metrics-token',
}

/** Returns what `ps` shows of a process, its threads and its children; nothing of one that has ended. */
function shownOf(pid: number | string): string {
  const read = (file: string) => {
    try {
      return readFileSync(`/proc/${pid}/${file}`, 'utf8')
    } catch {
      return ''
    }
  }
  const tasks = existsSync(`/proc/${pid}/task`) ? readdirSync(`/proc/${pid}/task`) : []
  const children = tasks.flatMap((task) => read(`task/${task}/children`).split(' ').filter(Boolean))
  const names = tasks.map((task) => read(`task/${task}/comm`))
  return [read('cmdline'), ...names, ...children.map(shownOf)].join('\n')
}

/** The settings, with a password in DATABASE_URL where there is one; trust asks for none, and takes any. */
async function settingsOf(t: Test): Promise<NodeJS.ProcessEnv> {
  const settings: NodeJS.ProcessEnv = { ...(await createServerSettings(t)), ...SECRETS }
  if (settings.DATABASE_URL === undefined) return settings
  const url = new URL(settings.DATABASE_URL)
  url.password ||= 'canary-database-password'
  return { ...settings, DATABASE_URL: url.href }
}

/** Returns what is shown of a process until it has ended. */
async function watch(pid: number, ended: Promise<unknown>): Promise<string[]> {
  const seen = new Set<string>()
  let over = false
  void ended.then(() => {
    over = true
  })
  while (!over) {
    seen.add(shownOf(pid))
    await wait(10)
  }
  return [...seen]
}

function checkShown(t: Test, name: string, shown: readonly string[]) {
  t.match(shown.join(), process.execPath, `${name} was looked at`)
  t.notMatch(shown.join('\n'), /canary-|rak_|"d":/, name)
}

const linux = { skip: process.platform === 'linux' ? false : 'there is no /proc' }

t.test('the process list contains no credential', linux, async (t) => {
  const settings = await settingsOf(t)
  const user = (email: string) => ['users', 'create', '--email', email, '--name', 'Ada']

  const run = async (t: Test, args: string[], input?: string) => {
    const { child, output, ended } = startModule(t, 'cli.ts', settings, args, SHORT_RUN)
    if (input !== undefined) child.stdin?.write(input)
    const watching = watch(child.pid ?? 0, ended)
    if (input !== undefined) child.stdin?.end('\n')
    const shown = await watching
    t.equal((await ended).code, 0, output.err)
    checkShown(t, args.join(' '), shown)
    return output
  }

  await t.test('of commands that read a password from a pipe, or create credentials', async (t) => {
    const { out, err } = await run(t, user('ada@example.com'), PASSWORD)
    t.notMatch(out + err, /canary-/)
    for (const command of ['api-keys create --email ada@example.com --name k', 'signing-keys rotate']) {
      const { err } = await run(t, command.split(' '))
      t.notMatch(err, /canary-|rak_[\w-]{20}|"d"/, 'and says it on standard output alone')
    }
  })

  const script = spawnSync('script', ['--version']).status === 0 ? false : 'there is no script(1)'
  await t.test('of a command that asks for a password on a terminal', { skip: script }, async (t) => {
    const runOnTerminal = async (email: string, typed: string) => {
      const args = [...SOURCE_FLAGS, 'src/cli.ts', ...user(email)]
      const command = ['-qefc', `exec ${process.execPath} ${args.join(' ')}`, '/dev/null']
      const env = { PATH: process.env.PATH, ...settings }
      const child = spawn('script', command, { cwd: root, env })
      t.teardown(() => child.kill('SIGKILL'))
      let out = ''
      child.stdout.setEncoding('utf8').on('data', (part: string) => {
        if (!out.includes('Password') && `${out}${part}`.includes('Password')) child.stdin.write(typed)
        out += part
      })
      const ended = once(child, 'close')
      const shown = await watch(child.pid ?? 0, ended)
      t.notMatch(out, /canary-/, 'what is typed is not shown')
      return { code: (await ended)[0], out, shown }
    }
    const { code, out, shown } = await runOnTerminal('bob@example.com', `${PASSWORD}\r`)
    t.equal(code, 0, out)
    t.match(out, /Password .*:(.|\s)*Created the member bob@example.com/)
    checkShown(t, 'users create', shown)
    const interrupted = await runOnTerminal('eve@example.com', 'canary-half\u0003')
    t.match(interrupted, { code: 1, out: /users create failed: Interrupted; nothing was changed/ })
  })

  await t.test('of the server', async (t) => {
    const { child, url, output } = await startServer(t, { ...settings, LOG_LEVEL: 'trace' })
    const grant = { grant_type: 'password', email: 'ada@example.com', password: PASSWORD }
    const signedIn = await createClient(url, {}).post('/tokens', grant)
    t.equal(signedIn.status, 201, signedIn.text)
    checkShown(t, 'the server', [shownOf(child.pid ?? 0)])
    t.notMatch(output.out + output.err, /canary-/)
  })
})

t.test('no command accepts a password as an argument, and the error says how to pass it', async (t) => {
  for (const args of [['--password', PASSWORD], [`--password=${PASSWORD}`], ['--password']]) {
    const command = ['users', 'create', '--email', 'a@example.com', ...args]
    const { output, ended } = startModule(t, 'cli.ts', {}, command)
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
  /** Sends a request whose first statement on that table waits until it was looked at. */
  const send = async (table: string, call: () => Promise<Reply>): Promise<Json> => {
    const [sent] = await other.transaction(async (tx) => {
      await tx.run(`lock table ${table}`)
      const pending = call()
      while (!(await look())) await wait(5)
      return [pending]
    })
    const reply = await sent
    t.match(reply?.status, /^20[01]$/, reply?.text)
    await look()
    return reply?.body.data
  }
  const email = 'canary@example.com'
  const grant = { grant_type: 'password', email, password: PASSWORD }
  await send('users', () => admin.post('/users', { name: 'C', email, password: PASSWORD }))
  const { refresh_token, access_token } = await send('users', () => anybody.post('/tokens', grant))
  const renewed = await send('sessions', () =>
    anybody.post('/tokens', { grant_type: 'refresh_token', refresh_token }),
  )
  const me = createClient(base, { authorization: `Bearer ${access_token}` })
  const { key } = await send('api_keys', () => me.post('/api-keys', { name: 'k', scopes: ['*'] }))
  await send('api_keys', () => createClient(base, { 'x-api-key': key }).get('/products'))
  const all = [...statements].join('\n')
  for (const seen of [/from "sign_in_addresses" inner join/, /"refresh_hash" = \$\d/, /"key_hash" = \$1/])
    t.match(all, seen)
  for (const secret of [PASSWORD, ADMIN_KEY, refresh_token, access_token, key, renewed.refresh_token])
    t.notOk(all.includes(secret))
  t.notMatch(all, /\$argon2|[0-9a-f]{64}/, 'nor a hash of one')
})
