/** An import locks the rows of others briefly, or not for long: those that its rows take from, and those that they refer to. */
import t from 'tap'
import { readStock } from '../../../../test/products.ts'
import type { Client, Json, Person, Reply } from '../../../testing/helpers/app.ts'
import { SERVER } from '../../../testing/helpers/database.ts'
import { NDJSON } from '../../../testing/helpers/imports.ts'
import { insertRows } from '../../../testing/helpers/rows.ts'
import { startShows } from '../../../testing/helpers/shows.ts'
import { waitUntil } from '../../../testing/helpers/time.ts'
import { createActiveProduct, createVersionedClient } from '../../../testing/helpers/versioned-client.ts'

const skip = SERVER ? false : 'the embedded database runs one transaction at a time: set DATABASE_URL'

/** Rows that an import writes together. */
const PIECE_ROWS = 500

const { admin, database, person, countWaiting, holding } = await startShows(t)
const api = createVersionedClient(admin, 1)
const [ada, bob] = [await person('member'), await person('member')]

const createProducts = async (...stocks: number[]): Promise<Json[]> => {
  const products = []
  for (const stock of stocks) products.push(await createActiveProduct(api, { stock, price_amount: 100 }))
  return products
}
const createOrder = (products: readonly Json[], user?: Person, quantity = 1): Json => ({
  items: products.map(({ id }) => ({ product_id: id, quantity })),
  ...(user && { user_id: user.id }),
})
const fill = <T>(count: number, row: T): T[] => Array(count).fill(row)
const sendRows = (client: Client, path: string, rows: readonly Json[]): Promise<Reply> =>
  client.call('POST', path, { headers: NDJSON, body: rows.map((row) => `${JSON.stringify(row)}\n`).join('') })
const countOrders = async ({ id }: Person) =>
  Number((await database.run('select count(*) as count from orders where user_id = $1', [id]))[0]?.count)

/**
 * Begins an import whose last row waits, until `work` has ended, for a row that another transaction has locked.
 * @returns the reply, and the result of the work
 */
async function during<T>(locked: string, id: string, begin: () => Promise<Reply>, work: () => Promise<T>) {
  const running = await holding(`select 1 from ${locked} where id = $1 for update`, [id], async () => {
    const sent = begin()
    await waitUntil(async () => (await countWaiting()) === 1)
    return { sent, result: await work() }
  })
  return { reply: await running.sent, result: running.result }
}

/** Begins an import of orders of Ada, in two pieces, and of one of Bob, who is locked. */
const duringOrders = <T>(products: readonly Json[], work: () => Promise<T>, query = '') => {
  const rows = [...fill(PIECE_ROWS + 1, createOrder(products, ada)), createOrder(products, bob)]
  return during('users', bob.id, () => sendRows(admin, `/orders${query}`, rows), work)
}

for (const [name, query] of Object.entries({ 'an import': '', 'its dry run': '?dry_run=true' })) {
  t.test(`others order and change the products of ${name} that is being written`, { skip }, async (t) => {
    const [tea, cup] = (await createProducts(2_000, 2_000)) as [Json, Json]
    const before = await countOrders(ada)
    const { reply, result } = await duringOrders(
      [cup, tea],
      async () => [
        await ada.client.post('/orders', createOrder([tea, cup])),
        await admin.patch(`/products/${tea.id}`, { name: 'Tea', stock: 3_000 }),
      ],
      query,
    )
    t.same(
      result.map(({ status }) => status),
      [201, 200],
    )
    t.same([reply.status, reply.body.data], [200, { created: PIECE_ROWS + 2, updated: 0, unchanged: 0 }])
    const taken = query ? 0 : PIECE_ROWS + 2
    t.equal(await readStock(api, tea.id), 3_000 - taken)
    t.equal(await readStock(api, cup.id), 2_000 - 1 - taken)
    t.equal(await countOrders(ada), before + 1 + (query ? 0 : PIECE_ROWS + 1))
  })
}

t.test('an import whose products have changed is 409, and writes nothing', { skip }, async (t) => {
  for (const change of [{ price_amount: 1 }, { status: 'archived' }, { stock: 3 }]) {
    const [tea] = (await createProducts(1_000)) as [Json]
    const before = await countOrders(ada)
    const { reply } = await duringOrders([tea], () => admin.patch(`/products/${tea.id}`, change))
    t.same([reply.status, reply.body.error.code], [409, 'RESOURCE_CONFLICT'], JSON.stringify(change))
    t.equal(reply.headers.get('retry-after'), '1')
    t.equal(await countOrders(ada), before)
    t.equal(await readStock(api, tea.id), change.stock ?? 1_000)
  }
})

t.test('a request whose product has changed is repeated', { skip }, async (t) => {
  const [tea, cup] = (await createProducts(10, 10)) as [Json, Json]
  const order = (product: Json) =>
    during(
      'users',
      bob.id,
      () => admin.post('/orders', createOrder([product], bob)),
      () => admin.patch(`/products/${product.id}`, product === tea ? { price_amount: 7 } : { stock: 0 }),
    )
  const { reply } = await order(tea)
  t.match(reply, { status: 201, body: { data: { items: [{ unit_amount: 7 }], total_amount: 7 } } })
  const { reply: soldOut } = await order(cup)
  t.match(soldOut, { status: 409, body: { error: { details: [{ code: 'INSUFFICIENT_STOCK' }] } } })
})

t.test('a batch needs all that it takes at first, although it returns some of it', { skip }, async (t) => {
  const [tea, cup] = (await createProducts(8, 8)) as [Json, Json]
  const { id } = (await admin.post('/orders', createOrder([tea], ada, 3))).body.data
  const post = (body: Json) => ({ method: 'POST', path: '/orders', body })
  const operations = [
    post(createOrder([tea], ada, 5)),
    { method: 'PATCH', path: `/orders/${id}`, body: { status: 'cancelled' } },
    post(createOrder([cup], bob)),
  ]
  const { reply, result } = await during(
    'users',
    bob.id,
    () => admin.post('/batches', { operations }),
    () => ada.client.post('/orders', createOrder([tea], ada, 3)),
  )
  t.equal(result.status, 201)
  t.equal(reply.status, 409)
  t.match(reply.body.error.details, [
    { field: 'operations.0.body.items.0.quantity', message: 'only 2 in stock', code: 'INSUFFICIENT_STOCK' },
  ])
  t.same([await readStock(api, tea.id), await readStock(api, cup.id)], [2, 8])
})

t.test('imports, batches and requests at the same time take exactly what they order', { skip }, async (t) => {
  const [tea, cup] = (await createProducts(5_000, 5_000)) as [Json, Json]
  const operation = (body: Json) => ({ method: 'POST', path: '/orders', body })
  const retryAll = async (send: () => Promise<Reply>): Promise<number> => {
    const { status } = await send()
    return status === 409 || status === 503 ? retryAll(send) : status
  }
  const statuses = await Promise.all([
    retryAll(() => sendRows(ada.client, '/orders', fill(600, createOrder([tea, cup])))),
    retryAll(() => sendRows(bob.client, '/orders', fill(600, createOrder([cup, tea])))),
    ...fill(5, operation(createOrder([tea], undefined, 2))).map((each) =>
      retryAll(() => admin.post('/batches', { operations: fill(4, each) })),
    ),
    ...fill(20, [cup]).map((products) => retryAll(() => admin.post('/orders', createOrder(products)))),
  ])
  t.same(statuses, [200, 200, ...fill(5, 200), ...fill(20, 201)])
  t.equal(await readStock(api, tea.id), 5_000 - 1_200 - 40)
  t.equal(await readStock(api, cup.id), 5_000 - 1_200 - 20)
})

t.test('the first row that needs more than the rest of the stock is named', async (t) => {
  const [tea, cup] = (await createProducts(520, 10_000)) as [Json, Json]
  const row = createOrder([cup, tea])
  for (const query of ['', '?dry_run=true']) {
    const reply = await sendRows(ada.client, `/orders${query}`, fill(PIECE_ROWS + 22, row))
    t.same(
      [reply.status, reply.body.error.details],
      [
        422,
        [521, 522].map((number) => ({
          field: `rows.${number}.items.1.quantity`,
          message: `only 0 in stock (line ${number})`,
          code: 'INSUFFICIENT_STOCK',
        })),
      ],
    )
  }
  t.same([await readStock(api, tea.id), await readStock(api, cup.id)], [520, 10_000])
})

t.test('what a refused row takes does not count for the rows behind it', async (t) => {
  const [tea] = (await createProducts(4)) as [Json]
  const rows = [
    ...fill(2, createOrder([tea], ada)),
    // The foreign key refuses it, when the stock of its piece has been added up.
    { ...createOrder([tea]), user_id: '01a20ba9-bcaa-7000-97cd-2c41a828592b' },
    ...fill(2, createOrder([tea], ada)),
  ]
  const reply = await sendRows(admin, '/orders', rows)
  t.same(
    reply.body.error.details.map(({ field, code }: Json) => [field, code]),
    [['rows.3.user_id', 'NOT_FOUND']],
  )
})

let shows = 0
const createShows = async (): Promise<[string, string]> => {
  const [one = '', other = ''] = await insertRows(
    database,
    'lock_shows',
    [1, 2].map(() => {
      shows += 1
      return { code: `import-${shows}`, title: 'Tea', status: 'open', seats: 9 }
    }),
  )
  return [one, other]
}

t.test('an import whose rows refer to a show lets others refer to it, and change it', { skip }, async (t) => {
  const [show, held] = await createShows()
  const review = { show_id: show }
  const rows = [...fill(PIECE_ROWS, review), { show_id: held }]
  const { reply, result } = await during(
    'lock_shows',
    held,
    () => sendRows(ada.client, '/reviews', rows),
    async () => [
      await bob.client.post('/reviews', review),
      await sendRows(bob.client, '/reviews', fill(3, review)),
      await bob.client.post('/batches', { operations: [{ method: 'POST', path: '/reviews', body: review }] }),
      await bob.client.patch(`/shows/${show}`, { title: 'Cups' }),
    ],
  )
  t.same(
    result.map(({ status }) => status),
    [201, 200, 200, 200],
  )
  t.same([reply.status, reply.body.data], [200, { created: PIECE_ROWS + 1, updated: 0, unchanged: 0 }])
})

t.test('an import may not keep rows locked by own code for longer than others wait', { skip }, async (t) => {
  const [show, held] = await createShows()
  const before = await database.run('select count(*) as count from lock_tickets')
  const rows = [show, held, show].map((id) => ({ show_id: id, note: 'A' }))
  const { reply } = await during(
    'lock_shows',
    held,
    () => sendRows(ada.client, '/tickets', rows),
    () => database.run('select pg_sleep(1)'),
  )
  t.match([reply.status, reply.body.error.code], [413, 'PAYLOAD_TOO_LARGE'])
  t.match(reply.body.error.message, /rows of shows locked .* send fewer rows/)
  t.same(await database.run('select count(*) as count from lock_tickets'), before)
  t.equal((await sendRows(ada.client, '/tickets', rows)).status, 200)
})
