/** A commit whose reply is lost is a 503, and a repetition with the same Idempotency-Key has one effect. */
import { setTimeout as wait } from 'node:timers/promises'
import createLimit from 'p-limit'
import t from 'tap'
import { type Reply, testApp } from '../../testing/helpers/app.ts'
import { openDatabase, testDatabaseUrl } from '../../testing/helpers/database.ts'
import { stopEventWork } from '../../testing/helpers/events.ts'
import { createNotesTable, resourcesWithNotes } from '../../testing/helpers/notes.ts'
import { createKeyHeader, isReplayed } from '../../testing/helpers/replies.ts'
import { type Loss, startLossyProxy } from './lossy-proxy.ts'

/** Three of four commits lose their replies. */
const MAX_ATTEMPTS = 100

const { url } = await testDatabaseUrl(t)

t.test('a commit whose reply is lost', { skip: url === undefined && 'needs a server' }, async (t) => {
  let loss: () => Loss = () => 'none'
  const proxy = await startLossyProxy(t, url ?? '', () => loss())
  const database = await openDatabase({ url: proxy.url })
  const { admin, adminId, app } = await testApp(t, {}, { database, resources: resourcesWithNotes })
  await stopEventWork(app)
  const direct = await openDatabase({ url: url ?? '', poolSize: 1 })
  t.teardown(() => direct.close())
  await createNotesTable(direct)
  const limit = createLimit(8)
  const each = <T>(items: readonly T[], work: (item: T) => Promise<unknown>) => limit.map(items, work)
  const headers = (many: number) => Array.from({ length: many }, createKeyHeader)

  /** Sends until it succeeds; each failure must be one after which the client may repeat the request. */
  const insist = async (send: () => Promise<Reply>): Promise<Reply> => {
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
      const reply = await send()
      if (reply.status === 201) return reply
      t.ok(reply.status === 503 || reply.status === 409, `${reply.status} ${reply.text}`)
      t.ok(reply.headers.get('retry-after'))
      // The first request may be at work.
      if (reply.status === 409) await wait(20)
    }
    throw new Error(`No success after ${MAX_ATTEMPTS} attempts`)
  }

  t.test('is a 503, and its repetition succeeds: 100 writes, 100 rows', async (t) => {
    const keys = headers(100)
    const send = (header: Record<string, string>) =>
      admin.post('/users/me/notes', { title: header['idempotency-key'], body: 'b' }, header)
    loss = () => 'answered'
    await each(keys, async (header) => t.match(await send(header), { status: 503 }))
    t.equal(proxy.lost(), 100)
    loss = () => 'none'
    const ids: string[] = []
    await each(keys, async (header) => {
      const reply = await insist(() => send(header))
      t.ok(isReplayed(reply), 'it had been done')
      ids.push(reply.body.data.id)
    })
    const rows = await direct.run('select id from notes where user_id = $1', [adminId])
    t.same(rows.map(({ id }) => id).sort(), ids.sort())
  })

  t.test('takes stock once, even if it happens repeatedly to the same order', async (t) => {
    const body = { sku: 'LOST', name: 'n', price_amount: 1, status: 'active', stock: 1_000 }
    const product_id = (await admin.post('/products', body)).body.data.id
    const before = proxy.lost()
    // Of four commits one is answered; of the others, half may be under way when the client asks again.
    let turn = 0
    loss = () => (['sent', 'answered', 'sent', 'none'] as const)[turn++ % 4] ?? 'none'
    await each(headers(100), async (header) => {
      await insist(() => admin.post('/orders', { items: [{ product_id, quantity: 1 }] }, header))
    })
    loss = () => 'none'
    t.ok(proxy.lost() - before >= 100, `${proxy.lost() - before} answers were lost`)
    const [product] = await direct.run('select stock from products where id = $1', [product_id])
    const [orders] = await direct.run('select count(*) as count from orders')
    t.same([product?.stock, orders?.count], [900, 100])
  })
})
