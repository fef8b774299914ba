/** A server that is killed (kill -9) or stopped under load: what it has confirmed stays, and nothing is done in part. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { openDatabase } from '../../../database/src/client/index.ts'
import { newId } from '../../../database/src/lib/ids.ts'
import { ADMIN_KEY, type Client, createClient, type Json, type Reply } from '../../../testing/helpers/app.ts'
import { SERVER, testDatabaseUrl, testFolder } from '../../../testing/helpers/database.ts'
import { getLink, getRecipient, startSmtpServer } from '../../../testing/helpers/mails.ts'
import { findFreePort } from '../../../testing/helpers/network.ts'
import { createServerSettings, startServer } from '../../../testing/helpers/process.ts'
import { waitUntil } from '../../../testing/helpers/time.ts'

/** Sends a request of one of the clients, and looks at the response. It rejects when the server is gone. */
type Send = (client: Client) => Promise<unknown>

const isLast = () => false

async function sendUntil(url: string, sends: readonly Send[], isEnough: () => boolean): Promise<void> {
  const client = createClient(url, { 'x-api-key': ADMIN_KEY })
  await Promise.all(
    sends.map(async (send) => {
      while (
        !isEnough() &&
        (await send(client).then(
          () => true,
          () => false,
        ))
      );
    }),
  )
}

interface Load {
  /** The signals that end the servers, one after another. */
  signals: readonly NodeJS.Signals[]
  sends: readonly Send[]
  /** Returns a function that returns whether there is enough of a round. */
  startRound(): () => boolean | Promise<boolean>
}

/** Starts a server in each round, and kills it when there is enough of that round, while the clients go on to send. */
async function killServers(
  t: Test,
  settings: NodeJS.ProcessEnv,
  { signals, sends, startRound }: Load,
): Promise<void> {
  for (const signal of signals) {
    const server = await startServer(t, settings)
    const isEnough = startRound()
    const clients = sendUntil(server.url, sends, isLast)
    await waitUntil(isEnough)
    server.child.kill(signal)
    const [end] = await Promise.all([server.ended, clients])
    t.same(end, signal === 'SIGKILL' ? { code: null, signal } : { code: 0, signal: null })
  }
}

async function createSettings(t: Test, more: NodeJS.ProcessEnv = {}): Promise<NodeJS.ProcessEnv> {
  return { ...(await createServerSettings(t)), ADMIN_API_KEY: ADMIN_KEY, ...more }
}

const isConfirmed = (t: Test, { status, text }: Reply, expected: number) => {
  if (status !== expected) t.equal(status, 503, text)
  return status === expected
}

t.test('no part of a batch or an import is left, and none that was confirmed is lost', async (t) => {
  const [creations, imported] = [20, 1_500]
  const settings = await createSettings(t)
  const confirmed: string[] = []
  /** What was sent in the last round, whose server completes it. */
  let stopped: string[] = []
  let sent = 0
  let refused = 0

  /** Creates users, and renames the one user of all clients. Every third batch fails in its last operation. */
  const sendBatch: Send = async (client) => {
    sent += 1
    const fails = sent % 3 === 0
    const name = `${fails ? 'failed' : 'batch'} ${sent}`
    stopped.push(name)
    const users = Array.from({ length: creations }, (_, i) => ({
      ...{ method: 'POST', path: '/users', body: { name, email: `${sent}.${i}@example.com` } },
    }))
    const rename = { method: 'PATCH', path: '/users/me', body: { name } }
    const profile = { method: 'POST', path: '/user-profiles', body: { user_id: '$0', display_name: name } }
    // A second profile of the same user.
    const operations = [...users, rename, profile, ...(fails ? [profile] : [])]
    const reply = await client.post('/batches', { operations })
    if (!isConfirmed(t, reply, fails ? 409 : 200)) return
    if (fails) refused += 1
    else confirmed.push(name)
  }
  const sendImport: Send = async (client) => {
    sent += 1
    const name = `import ${sent}`
    stopped.push(name)
    const lines = Array.from({ length: imported }, (_, i) => `${name},${sent}.${i}@example.com\n`)
    const body = `name,email\n${lines.join('')}`
    if (isConfirmed(t, await client.post('/users', body, { 'content-type': 'text/csv' }), 200))
      confirmed.push(name)
  }
  await killServers(t, settings, {
    signals: ['SIGKILL', 'SIGKILL', 'SIGTERM'],
    sends: [sendImport, ...Array.from({ length: 4 }, () => sendBatch)],
    startRound() {
      stopped = []
      const before = confirmed.length
      const hasImport = () => confirmed.slice(before).some((name) => name.startsWith('import'))
      return () => confirmed.length >= before + 5 && hasImport()
    },
  })

  const database = await openDatabase({ url: settings.DATABASE_URL, dataDir: settings.DATA_DIR })
  t.teardown(() => database.close())
  // PostgreSQL ends the transactions of connections that are gone.
  await waitUntil(async () => {
    const [open] = await database.run(
      `select count(*) as count from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() and state <> 'idle'`,
    )
    return Number(open?.count) === 0
  })
  const rows: Json[] = await database.run(
    `select u.name, count(*) as count, count(p.id) as profiles from users u left join user_profiles p on p.user_id = u.id
     where u.role = 'member' group by u.name`,
  )
  const isWhole = ({ name, count, profiles }: Json) =>
    name.startsWith('import')
      ? Number(count) === imported
      : name.startsWith('batch') && Number(count) === creations && Number(profiles) === 1
  t.same(
    rows.filter((row) => !isWhole(row)),
    [],
    `${rows.length} whole ones of ${sent}; ${refused} failed in their last operation`,
  )
  t.ok(refused > 0)
  const found = new Set(rows.map(({ name }) => name))
  t.same(
    confirmed.filter((name) => !found.has(name)),
    [],
    `${confirmed.length} were confirmed`,
  )
  t.same(
    stopped.filter((name) => found.has(name)).sort(),
    confirmed.filter((name) => stopped.includes(name)).sort(),
    'a server that is stopped confirms each write that it makes',
  )
})

const skip = SERVER === undefined && 'DATABASE_URL is not set'

t.test('each mail that was confirmed is sent, and none that was not requested', { skip }, async (t) => {
  const { url = '' } = await testDatabaseUrl(t)
  const database = await openDatabase({ url })
  t.teardown(() => database.close())
  const mailbox = await startSmtpServer(t)
  const settings = await createSettings(t, { ...mailbox.settings, DATABASE_URL: url })
  const toAddress = (i: number) => `user${i}@example.com`
  // More than are requested in all rounds.
  const ids = Array.from({ length: 2_000 }, newId)
  await database.run(
    `insert into users (id, name, email, search)
     select id, 'User', 'user' || (position - 1) || '@example.com', '' from unnest($1::uuid[]) with ordinality as ids (id, position)`,
    [ids],
  )
  const confirmed: string[] = []
  let requested = 0
  const sends = Array.from(
    { length: 4 },
    (): Send => async (client) => {
      const email = toAddress(requested++)
      if (isConfirmed(t, await client.post('/password-resets', { email }), 201)) confirmed.push(email)
    },
  )
  await killServers(t, settings, {
    ...{ signals: ['SIGKILL', 'SIGKILL'], sends },
    startRound() {
      const wanted = confirmed.length + 10
      return async () => confirmed.length >= wanted && (await mailbox.read()).length > 0
    },
  })
  const sentByKilled = (await mailbox.read()).length
  // The claims of the killed servers have ended.
  await database.run(`update work set next_attempt_at = now() where kind = 'mail'`)
  const last = await startServer(t, settings)
  await sendUntil(last.url, sends, () => requested >= 80)
  await waitUntil(
    async () => (await database.run(`select id from work where kind = 'mail'`)).length === 0,
    300_000,
  )

  const mails = await mailbox.read()
  const received = new Set(mails.map(getRecipient))
  t.ok(sentByKilled > 0 && sentByKilled < confirmed.length, `${sentByKilled} were sent before the last kill`)
  t.same(
    confirmed.filter((email) => !received.has(email)),
    [],
    `${confirmed.length} of ${requested} were confirmed, and each of these was sent`,
  )
  const all = new Set(Array.from({ length: requested }, (_, i) => toAddress(i)))
  t.same(
    [...received].filter((email) => !all.has(email)),
    [],
    'none was sent that was not requested',
  )
  const links = await database.run('select id, email from account_links')
  const emails = new Map(links.map(({ id, email }) => [id, email]))
  t.ok(
    mails.every((mail) => emails.get(getLink(mail).id) === getRecipient(mail)),
    'each has the link of a request that was committed',
  )
  t.equal(links.length, received.size, 'each request that was committed has its mail')
  t.comment(`${mails.length - received.size} of ${mails.length} mails were sent again`)
})

const page = readFileSync(new URL('../../../../docs/callers/events.md', import.meta.url), 'utf8')
const script = /```sh\n(#!\/bin\/sh[\s\S]*?)```/.exec(page)?.[1] ?? ''

t.test('the documented consumer, a script with curl, has each change once and in order', async (t) => {
  const port = String(await findFreePort())
  const settings = await createSettings(t, { PORT: port })
  const folder = testFolder(t)
  const read = (file: string) =>
    existsSync(join(folder, file)) ? readFileSync(join(folder, file), 'utf8') : ''
  const readSkus = (): string[] =>
    [...read('events.jsonl').matchAll(/^.+$/gm)].flatMap(([line]) => {
      const { type, data } = JSON.parse(line)
      return type === 'products.created' ? [data.sku] : []
    })
  writeFileSync(join(folder, 'follow.sh'), script)
  const consumer = spawn('sh', ['follow.sh'], {
    cwd: folder,
    // curl and the loop are processes of the group.
    detached: true,
    env: { PATH: process.env.PATH, URL: `http://127.0.0.1:${port}`, API_KEY: ADMIN_KEY },
    stdio: 'ignore',
  })
  const hasExited = once(consumer, 'exit')
  t.teardown(() => {
    if (consumer.pid !== undefined) process.kill(-consumer.pid, 'SIGKILL')
    return hasExited
  })

  let sent = 0
  const create: Send = async (client) => {
    // Only what is created after the first cursor is in the feed of the consumer.
    if (read('cursor') === '') return
    const body = { sku: `TEA-${++sent}`, name: 'Tea', price_amount: 500 }
    isConfirmed(t, await client.post('/products', body), 201)
  }
  await killServers(t, settings, { signals: ['SIGKILL'], sends: [create], startRound: () => () => sent > 20 })
  const last = await startServer(t, settings)
  await sendUntil(last.url, [create], () => sent >= 50)
  const products = await createClient(last.url, { 'x-api-key': ADMIN_KEY }).get('/products?limit=100')
  const expected = products.body.data.map(({ sku }: Json) => sku).reverse()
  t.ok(expected.length >= 49, `${expected.length} of ${sent} were created`)
  await waitUntil(() => readSkus().includes(expected.at(-1)))
  // Only the event whose block was cut when the server was killed may be repeated.
  t.same([...new Set(readSkus())], expected)
  t.ok(readSkus().length <= expected.length + 1)
})
