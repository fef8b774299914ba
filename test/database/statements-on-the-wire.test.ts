/** The benchmark's workloads run a known set of statements and packets on the wire. */
import t from 'tap'
import type { Database } from '../../drizzle/client/index.ts'
import { type Client, type Reply, testApp } from '../helpers/app.ts'
import { openDatabase, SERVER, testDatabase, testDatabaseUrl } from '../helpers/database.ts'
import { stopEventWork } from '../helpers/events.ts'
import { insertRows } from '../helpers/rows.ts'
import { overhear, type RecordedTraffic, startStatementRecorder } from '../helpers/statements.ts'

async function listened(): Promise<{ database: Database; take(): RecordedTraffic }> {
  if (!SERVER) return overhear(await testDatabase(t))
  const { url = '' } = await testDatabaseUrl(t)
  const wire = await startStatementRecorder(t, url)
  const database = await openDatabase({ url: wire.url })
  t.teardown(() => database.close())
  return { database, take: wire.take }
}

const { database, take } = await listened()
const app = await testApp(t, {}, { database })
// Its statements would be among those that are counted.
await stopEventWork(app.app)
const { client, bearer } = await app.person('admin')
const CLIENTS = { 'an API key': client, 'a Bearer token': bearer }

const many = <T>(row: T) => Array.from({ length: 60 }, () => row)
const [product = ''] = await insertRows(database, 'products', many({}))
const users = await insertRows(database, 'users', many({}))
const item = { product_id: product, quantity: 1, sku: 'S', name: 'N', unit_amount: 100, total_amount: 100 }
await insertRows(
  database,
  'orders',
  users.map((user_id) => ({ user_id, items: JSON.stringify([item]) })),
)

let count = 0
const path = `/products/${product}`
const newProduct = () => ({ sku: `WIRE-${++count}`, name: 'New', price_amount: 100 })
const newStock = () => ({ stock: ++count })

interface Workload {
  name: string
  status: number
  /** What it asks, as often as it likes; the last reply is the workload's. */
  ask(client: Client, before: Reply | undefined): Promise<Reply>
  statements: RegExp[]
}

const actives = '/users?status=active&limit=20'

const workloads: Workload[] = [
  { name: 'W1', status: 200, ask: (by) => by.get(path), statements: [/^select .* from "products"/] },
  { name: 'W2', status: 200, ask: (by) => by.get('/products'), statements: [/^select .* from "products"/] },
  {
    name: 'W3',
    status: 200,
    ask: (by, before) => by.get(`${actives}&cursor=${before?.body.pagination.cursor ?? ''}`),
    statements: [/^select .* from "users"/],
  },
  {
    name: 'W4',
    status: 200,
    ask: (by) => by.get('/orders?include=user'),
    // The users are known only after the orders are read.
    statements: [/^select .* from "orders"/, /^select .* from unnest.* from "users"/],
  },
  {
    name: 'W5',
    status: 201,
    ask: (by) => by.post('/products', newProduct()),
    statements: [/^with changed as \(insert into "products"/],
  },
  {
    name: 'W6',
    status: 200,
    ask: (by) => by.patch(path, newStock()),
    statements: [/^with changed as \(update "products"/],
  },
  {
    name: 'W7',
    status: 304,
    ask: (by, before) => by.get(path, { 'if-none-match': before?.headers.get('etag') ?? '' }),
    statements: [/^select .* from "products"/],
  },
]

/** Milliseconds: a connection that was idle for a second is asked whether it still holds. */
const PAUSE = 900

/** Asked twice before: by then the credential is known, and what it takes is prepared. */
async function heard(
  { ask, status }: Pick<Workload, 'ask' | 'status'>,
  by: Client,
): Promise<RecordedTraffic> {
  const first = await ask(by, undefined)
  await ask(by, first)
  const began = performance.now()
  take()
  const reply = await ask(by, first)
  const sent = take()
  if (performance.now() - began > PAUSE) return heard({ ask, status }, by)
  t.equal(reply.status, status, reply.text)
  return sent
}

for (const [credential, by] of Object.entries(CLIENTS)) {
  for (const workload of workloads) {
    const { name, statements } = workload
    t.test(`${name} with ${credential}: exactly the expected statements`, async (t) => {
      const sent = await heard(workload, by)
      t.match(sent.statements, statements)
      t.equal(sent.statements.length, statements.length, sent.statements.join('; '))
      t.equal(sent.roundTrips, statements.length, 'a round trip each, and none for a transaction')
      t.equal(sent.prepared, 0, 'what was asked before is not parsed again')
    })
  }
}

t.test('an uncached credential is looked up and its last use recorded', async (t) => {
  const { client, bearer } = await app.person('admin')
  for (const [by, credential] of [
    [client, 'api_keys'],
    [bearer, 'sessions'],
  ] as const) {
    take()
    await by.get(path)
    const { statements } = take()
    t.match(statements, [
      new RegExp(`from "${credential}"`),
      new RegExp(`^update "${credential}"`),
      /"products"/,
    ])
    t.equal(statements.length, 3)
    await by.get(path)
    t.equal(take().statements.length, 1, 'and is known from then on')
  }
})

t.test('a write with an Idempotency-Key and its record are one transaction', async (t) => {
  const headers = () => ({ 'idempotency-key': `wire-${++count}` })
  const writes: [count: number, Pick<Workload, 'ask' | 'status'>][] = [
    [6, { status: 201, ask: (by) => by.post('/products', newProduct(), headers()) }],
    // The row is locked and looked at before the record is asked for, as the contract orders it.
    [7, { status: 200, ask: (by) => by.patch(path, newStock(), headers()) }],
  ]
  for (const [count, write] of writes) {
    const { statements, roundTrips } = await heard(write, client)
    t.match([statements.at(0), statements.at(-1)], [/^begin/, /^commit/])
    t.equal(statements.length, count, statements.join('; '))
    t.equal(roundTrips, count)
  }
})
