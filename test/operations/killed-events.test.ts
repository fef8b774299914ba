/** kill -9 of a server amid writes loses no event and keeps their order. The soak test has the long run. */
import t from 'tap'
import { createClient, type Json } from '../helpers/app.ts'
import { openDatabase, SERVER } from '../helpers/database.ts'
import { readFeed } from '../helpers/events.ts'
import { createServerSettings, startServer } from '../helpers/process.ts'
import { waitUntil } from '../helpers/wait-until.ts'

const KEY = 'kill-admin-key-kill-admin-key-kill-admin-key'
const WRITERS = 6
const WRITES_BEFORE_KILL = 200

t.test(
  'after kill -9, each committed change has one event, in the order of the revisions',
  { skip: !SERVER },
  async (t) => {
    const settings: NodeJS.ProcessEnv = {
      ...(await createServerSettings(t)),
      ADMIN_API_KEY: KEY,
      LOG_LEVEL: 'silent',
    }
    const first = await startServer(t, settings)
    const admin = createClient(first.url, { 'x-api-key': KEY })
    const ids: string[] = []
    for (let i = 0; i < WRITERS / 2; i += 1)
      ids.push(
        (await admin.post('/products', { sku: `TEA-${i}`, name: 'Tea', price_amount: 1, stock: 0 })).body.data
          .id,
      )
    /** The highest revision that a response has acknowledged, by product. */
    const acknowledged = new Map<string, number>()
    let count = 0
    const write = async (id: string, writer: number) => {
      for (let stock = writer + 1; ; stock += WRITERS) {
        const reply = await admin.patch(`/products/${id}`, { stock })
        const revision = Number(/\d+/.exec(reply.headers.get('etag') ?? '')?.[0])
        acknowledged.set(id, Math.max(acknowledged.get(id) ?? 0, revision))
        count += 1
      }
    }
    const writers = Array.from({ length: WRITERS }, (_, i) => write(ids[i % ids.length] ?? '', i))
    const ended = Promise.allSettled(writers)
    await waitUntil(() => count >= WRITES_BEFORE_KILL)
    first.child.kill('SIGKILL')
    await Promise.all([first.ended, ended])

    const second = await startServer(t, settings)
    const reader = createClient(second.url, { 'x-api-key': KEY })
    const database = await openDatabase({ url: settings.DATABASE_URL })
    t.teardown(() => database.close())
    await waitUntil(async () => (await database.run('select 1 from outbox limit 1')).length === 0)
    const { events } = await readFeed(reader, '&limit=100')
    t.strictSame(
      events.map(({ position }) => position),
      events.map((_, i) => i + 1),
      'positions have no gaps',
    )
    t.equal(new Set(events.map(({ id }) => id)).size, events.length)
    for (const id of ids) {
      const own = events.filter(({ resource_id }) => resource_id === id)
      const [row] = await database.run('select revision, stock from products where id = $1', [id])
      t.strictSame(
        own.map(({ revision }) => revision),
        Array.from({ length: Number(row?.revision) }, (_, i) => i + 1),
        'one event for each revision, in their order',
      )
      t.ok(Number(row?.revision) >= (acknowledged.get(id) ?? Number.NaN), 'no acknowledged change is lost')
      t.equal(own.at(-1).data.stock, row?.stock)
      const stocks = own.map(({ data }: Json) => data.stock)
      t.strictSame(
        own.slice(1).map(({ previous }: Json) => previous.stock),
        stocks.slice(0, -1),
      )
    }
  },
)
