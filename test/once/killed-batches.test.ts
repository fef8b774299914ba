/**
 * A server that is killed (kill -9) under concurrent batches and imports leaves no part of one, nothing of those that fail
 * in their last operation, and loses none that it confirmed.
 */
import t from 'tap'
import { openDatabase } from '../../drizzle/client/index.ts'
import { ADMIN_KEY, createClient, type Json } from '../helpers/app.ts'
import { createServerSettings, startServer } from '../helpers/process.ts'
import { waitUntil } from '../helpers/time.ts'

const ROUNDS = 5
const WRITERS = 4
const CREATIONS = 20
const IMPORTED = 1_500

t.test('kill -9 under concurrent batches', async (t) => {
  const settings: NodeJS.ProcessEnv = { ...(await createServerSettings(t)), ADMIN_API_KEY: ADMIN_KEY }
  const confirmed: string[] = []
  let sent = 0
  let refused = 0

  /**
   * Creates users in batches, each of which also renames the one user of all writers, until the server is gone. Every third
   * one fails in its last operation.
   */
  const write = async (base: string) => {
    const client = createClient(base, { 'x-api-key': ADMIN_KEY })
    for (;;) {
      sent += 1
      const fails = sent % 3 === 0
      const name = `${fails ? 'failed' : 'batch'} ${sent}`
      const creations = Array.from({ length: CREATIONS }, (_, i) => ({
        method: 'POST',
        path: '/users',
        body: { name, email: `${sent}.${i}@example.com` },
      }))
      const profile = { method: 'POST', path: '/user-profiles', body: { user_id: '$0', display_name: name } }
      const rename = { method: 'PATCH', path: '/users/me', body: { name } }
      // A second profile of the same user.
      const operations = [...creations, rename, profile, ...(fails ? [profile] : [])]
      const reply = await client.post('/batches', { operations }).catch(() => undefined)
      if (!reply) return
      if (reply.status === 200 && !fails) confirmed.push(name)
      else if (fails && reply.status === 409) refused += 1
      else t.equal(reply.status, 503, reply.text)
    }
  }

  /** Imports users, one file after the other, until the server is gone. */
  const importRows = async (base: string) => {
    const client = createClient(base, { 'x-api-key': ADMIN_KEY })
    for (;;) {
      sent += 1
      const name = `import ${sent}`
      const lines = Array.from({ length: IMPORTED }, (_, i) => `${name},${sent}.${i}@example.com\n`)
      const headers = { 'content-type': 'text/csv' }
      const reply = await client
        .post('/users', `name,email\n${lines.join('')}`, headers)
        .catch(() => undefined)
      if (!reply) return
      if (reply.status === 200) confirmed.push(name)
      else t.equal(reply.status, 503, reply.text)
    }
  }

  for (let round = 0; round < ROUNDS; round++) {
    const server = await startServer(t, settings)
    const before = confirmed.length
    const writers = [importRows(server.url), ...Array.from({ length: WRITERS }, () => write(server.url))]
    await waitUntil(() => {
      const names = confirmed.slice(before)
      return names.length >= 5 + round && names.some((name) => name.startsWith('import'))
    })
    server.child.kill('SIGKILL')
    await Promise.all([server.ended, ...writers])
  }
  const database = await openDatabase({ url: settings.DATABASE_URL, dataDir: settings.DATA_DIR })
  t.teardown(() => database.close())
  // PostgreSQL ends the transactions of connections that are gone.
  await waitUntil(async () => {
    const [open] = await database.run(
      `select count(*) as count from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() and state <> 'idle'`,
    )
    return Number(open?.count) === 0
  })
  const left = await database.run(`select name from users where name like 'failed %'`)
  t.same(left, [], `${refused} batches failed in their last operation`)
  t.ok(refused > 0)
  const rows: Json[] = await database.run(
    `select u.name, count(*) as count, count(p.id) as profiles
     from users u left join user_profiles p on p.user_id = u.id
     where u.name like 'batch %' and u.role = 'member' group by u.name`,
  )
  const parts = rows.filter(({ count, profiles }) => Number(count) !== CREATIONS || Number(profiles) !== 1)
  t.same(parts, [], `${rows.length} whole batches of ${sent}`)
  const imports: Json[] = await database.run(
    `select name, count(*) as count from users where name like 'import %' group by name`,
  )
  t.ok(
    imports.every(({ count }) => Number(count) === IMPORTED),
    `${imports.length} whole imports`,
  )
  const found = new Set([...rows, ...imports].map(({ name }) => name))
  t.same(
    confirmed.filter((name) => !found.has(name)),
    [],
    `${confirmed.length} were confirmed`,
  )
})
