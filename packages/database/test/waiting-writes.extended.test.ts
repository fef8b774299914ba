/** A write that waits for another transaction delays no other write and no read of any user. */
import t from 'tap'
import { type Client, type Reply, testApp } from '../../testing/helpers/app.ts'
import { openDatabase, SERVER, testDatabaseUrl } from '../../testing/helpers/database.ts'
import { insertRows } from '../../testing/helpers/rows.ts'
import { createDatabase } from '../src/client/database.ts'
import type { Database } from '../src/client/index.ts'

const skip = SERVER ? false : 'PGlite has one connection, and no statement of it waits for another'

/** Returns a database that collects the next `count` statements that match, and sends them together, `first` first. */
function createGatheringDatabase(opened: Database) {
  let [pattern, count, first] = [/^$/, 0, '']
  let gathered: { isFirst: boolean; resume(): void }[] = []
  const database = createDatabase({
    ...opened.$client,
    async run(text, params, options) {
      if (count > 0 && pattern.test(text)) {
        count -= 1
        const isFirst = params?.includes(first) === true
        await new Promise<void>((resume) => {
          gathered.push({ isFirst, resume })
          if (count > 0) return
          for (const each of gathered.sort((a, b) => Number(b.isFirst) - Number(a.isFirst))) each.resume()
          gathered = []
        })
      }
      return opened.$client.run(text, params, options)
    },
  })
  const gather = (...next: [pattern: RegExp, count: number, first: string]) => {
    ;[pattern, count, first] = next
  }
  return { database, gather }
}

/** Sends a request that waits for the other transaction, or that does not. */
type Send = (client: Client, row: { id: string; n: number }) => Promise<Reply>

const [LOCK_PRODUCT, LOCK_USER] = ['products', 'users'].map(
  (table) => `select 1 from ${table} where id = $1 for update`,
) as [string, string]
const INSERT_SKU = `insert into products (id, sku, name, price_amount, search) values (gen_random_uuid(), $1, 'A', 1, 'a')`
const update =
  (headers = {}): Send =>
  (client, { id, n }) =>
    client.patch(`/products/${id}`, { stock: n + 1 }, headers)

/**
 * The statement that is sent for each request, all in one turn of the event loop, what the other transaction has done, and
 * the statuses of those that waited, once it has rolled back.
 */
const cases: Record<string, [pattern: RegExp, lock: string, send: Send, statuses: number[]]> = {
  'a change of a locked row': [/update "products"/, LOCK_PRODUCT, update(), [200, 200]],
  'a change of a locked row behind an If-Match': [
    /update "products"/,
    LOCK_PRODUCT,
    update({ 'if-match': '*' }),
    [200, 200],
  ],
  'an insert with the value of a unique index': [
    /insert into "products"/,
    INSERT_SKU,
    (client, { id, n }) =>
      client.post('/products', { sku: n < 2 ? id : `${n}`, name: 'Tea', price_amount: 1 }),
    [201, 409],
  ],
  'an insert that refers to a row that is being deleted': [
    /insert into "user_profiles"/,
    LOCK_USER,
    (client, { id }) => client.post('/user-profiles', { user_id: id }),
    [201, 409],
  ],
}

for (const [name, [pattern, lock, send, statuses]] of Object.entries(cases)) {
  t.test(`${name} waits alone`, { skip }, async (t) => {
    const { url } = await testDatabaseUrl(t)
    const { database, gather } = createGatheringDatabase(
      await openDatabase({ url, poolSize: 3, lockTimeout: 5000 }),
    )
    const other = await openDatabase({ url, poolSize: 1 })
    t.teardown(() => other.close())
    t.teardown(() => database.close())
    // The share of a user in as many connections lets all eight writes begin.
    const { admin } = await testApp(t, { POOL_SIZE: '20' }, { database })
    const table = /profiles/.test(pattern.source) ? 'users' : 'products'
    const [locked = '', ...others] = await insertRows(database, table, Array(7).fill({}))

    let waiting: Promise<Reply>[] = []
    const rollBack = new Error('rolled back')
    const holding = other.transaction(async (tx) => {
      await tx.run(lock, [locked])
      gather(pattern, 8, locked)
      waiting = [0, 1].map((n) => send(admin, { id: locked, n }))
      const writes = others.map((id, i) => send(admin, { id, n: i + 2 }))
      for (const { status } of await Promise.all(writes)) t.ok(status < 300, `${status}`)
      t.equal((await admin.get(`/${table}/${others[0]}`)).status, 200)
      throw rollBack
    })
    await t.rejects(holding, rollBack)
    const replies = await Promise.all(waiting)
    t.same(replies.map(({ status }) => status).sort(), statuses)
  })
}
