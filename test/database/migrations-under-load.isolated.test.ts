/** Migrations do not stop a service with 200,000 orders: no request waits more than 4 s, and none fails. */
import t, { type Test } from 'tap'
import { v7 as uuid } from 'uuid'
import { migrate } from '../../drizzle/migrate.ts'
import { testApp } from '../helpers/app.ts'
import { createDatabase, createMigrations, openDatabase, SERVER } from '../helpers/database.ts'
import { waitUntil } from '../helpers/time.ts'

const ORDERS = 200_000
const MAX_WAIT_MS = 4_000
/** Three times the connections of the pool: most requests wait for one. */
const CLIENTS = 30

const INSERT_ORDERS = `insert into orders (id, user_id, items, currency, total_amount, note, search)
  select gen_random_uuid(), $1, '[]', 'USD', n, 'note ' || n, 'note ' || n from generate_series(1, $2::int4) as n`

/** Sends requests, one after the other for each client, until the migrations have been applied. */
async function applyUnderLoad(
  t: Test,
  request: (n: number) => Promise<unknown>,
  apply: () => Promise<unknown>,
): Promise<void> {
  const failures: unknown[] = []
  let [isOver, count, slowestMs] = [false, 0, 0]
  const sendRequests = async (client: number) => {
    for (let n = client; !isOver; n += CLIENTS) {
      const startedAt = performance.now()
      await request(n).catch((error: unknown) => failures.push(error))
      slowestMs = Math.max(slowestMs, performance.now() - startedAt)
      count += 1
    }
  }
  const clients = Array.from({ length: CLIENTS }, (_, client) => sendRequests(client))
  await waitUntil(() => count > CLIENTS)
  const before = count
  try {
    await apply()
  } finally {
    isOver = true
    await Promise.all(clients)
  }
  t.strictSame(failures, [])
  t.ok(slowestMs < MAX_WAIT_MS, `the slowest of ${count - before} requests took ${Math.round(slowestMs)} ms`)
}

t.test('200,000 orders', { skip: SERVER ? false : 'needs a PostgreSQL server' }, async (t) => {
  const url = await createDatabase(t, SERVER ?? '')
  const open = async (options = {}) => {
    const database = await openDatabase({ url, ...options })
    t.teardown(() => database.close())
    return database
  }
  // As the command `migrate` does.
  const owner = await open({ poolSize: 1, statementTimeout: 0 })
  await migrate(owner)
  const userId = uuid()
  await owner.run(`insert into users (id, name, email, role) values ($1, 'A', 'a@b.example', 'admin')`, [
    userId,
  ])
  await owner.run(INSERT_ORDERS, [userId, ORDERS])
  await owner.run('analyze orders')
  const ids = (await owner.run('select id from orders limit 1000')).map(({ id }) => String(id))
  const getId = (n: number) => ids[n % ids.length] ?? ''

  await t.test('a column and an index of orders, while a transaction uses the table', async (t) => {
    const { admin } = await testApp(t, {}, { database: await open() })
    const request = async (n: number) => {
      const { status, text } =
        n % 2 === 0
          ? await admin.get('/orders?limit=5&sort=-created_at')
          : await admin.patch(`/orders/${getId(n)}`, { note: `note ${n}` })
      if (status !== 200) throw new Error(`${status} ${text}`)
    }
    const folder = createMigrations(t, {
      '0000_column': 'alter table orders add column color text',
      '0001_index': 'create index concurrently orders_color on orders (color, id)',
    })
    const reader = await open({ poolSize: 1 })
    const observer = await open({ poolSize: 1 })
    const isWaiting = async () => {
      const locks = await observer.run(
        `select 1 from pg_locks where relation = 'orders'::regclass and mode = 'AccessExclusiveLock' and not granted`,
      )
      return locks.length > 0
    }
    await applyUnderLoad(t, request, async () => {
      const { applied } = await reader.transaction(async (tx) => {
        await tx.run('select id from orders limit 1')
        const migrating = migrate(owner, { folders: [folder] })
        for (const expected of [true, false, true])
          await waitUntil(async () => (await isWaiting()) === expected)
        return { applied: migrating }
      })
      t.strictSame(await applied, ['0000_column', '0001_index'])
    })
  })
})
