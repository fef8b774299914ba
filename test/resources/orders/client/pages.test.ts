/** The lists of the client package: all pages as one iterable, or page by page. */
import t from 'tap'
import { createClient } from '../../../../client/src/index.ts'
import { ADMIN_KEY, testApp } from '../../../helpers/app.ts'
import { createRecordedFetch } from '../../../helpers/recorded-fetch.ts'

const COUNT = 250

t.test('lists', async (t) => {
  const { base: baseUrl, database } = await testApp(t)
  await database.run(
    `insert into products (id, sku, name, price_amount, currency, stock, status, search)
     select gen_random_uuid(), 'SKU-' || n, 'Tea', n, 'USD', 0, 'active', 'tea' from generate_series(1, $1::int) n`,
    [COUNT],
  )
  const { fetch, sent } = createRecordedFetch()
  const client = createClient({ baseUrl, apiKey: ADMIN_KEY, fetch })
  t.beforeEach(() => {
    sent.length = 0
  })

  t.test('iterating yields each resource of all pages once, in order', async (t) => {
    const prices: number[] = []
    const list = client.products.list({ status: 'active', sort: ['price_amount'], fields: ['price_amount'] })
    for await (const { price_amount } of list) prices.push(price_amount)
    t.same(
      prices,
      Array.from({ length: COUNT }, (_, i) => i + 1),
    )
    t.equal(sent.length, 3, 'in pages of 100')
    t.equal((await client.products.list({ limit: 50, fields: ['id'] }).toArray()).length, COUNT)
    t.equal(sent.length, 3 + 5, 'or of `limit`')
    // @ts-expect-error a program without exactOptionalPropertyTypes may pass undefined
    await client.products.list({ limit: undefined }).toArray()
    t.equal(sent.length, 3 + 5 + 3, 'an undefined `limit` is none')
  })

  t.test('a filter takes one value or several, and a range its limits', async (t) => {
    const skus = ['SKU-9', 'SKU-3', 'NO']
    const found = await client.products.list({ sku: skus, sort: ['price_amount'] }).toArray()
    t.match(found, [{ sku: 'SKU-3' }, { sku: 'SKU-9' }])
    t.match(sent[0]?.path, 'sku=SKU-9,SKU-3,NO')
    const range = { price_amount_min: 3, price_amount_max: 5, status: ['active', 'draft'] } as const
    t.equal((await client.products.list(range).toArray()).length, 3)
  })

  t.test('no page is requested before it is needed', async (t) => {
    const list = client.products.list({ limit: 10 })
    t.equal(sent.length, 0)
    let count = 0
    for await (const _ of list) if (++count === 10) break
    t.equal(sent.length, 1)
  })

  t.test('page() returns one page, and next() the one after it', async (t) => {
    const first = await client.products.list({ sort: ['sku'], limit: 100 }).page()
    t.equal(first.data.length, 100)
    t.match(first.pagination, { has_more: true, cursor: String })
    const second = await first.next()
    const third = await second?.next()
    t.equal(third?.data.length, 50)
    t.equal(third?.hasNext, false)
    t.equal(await third?.next(), null)
    t.equal((await client.products.list().page()).data.length, 20, 'the page size of the server')
  })

  t.test('a list with page numbers has totals, and next() counts up', async (t) => {
    const first = await client.products.list({ page: 2, limit: 100 }).page()
    t.same(first.pagination, { page: 2, limit: 100, total: COUNT, total_pages: 3 })
    const second = await first.next()
    t.match(second?.pagination, { page: 3 })
    t.equal(await second?.next(), null)
  })

  t.test('a list that is aborted ends with the reason of the signal', async (t) => {
    const controller = new AbortController()
    const read = async () => {
      for await (const _ of client.products.list({ limit: 10 }, { signal: controller.signal })) {
        controller.abort(new Error('enough'))
      }
    }
    await t.rejects(read(), { message: 'enough' })
  })
})
