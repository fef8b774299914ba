/** Orders are priced by the server, reserve stock, and follow the documented status transitions. */

import {
  createUniqueName,
  createVersionedClient,
  describeList,
  type Json,
  testApp,
  UNKNOWN_ID,
  type VersionedClient,
} from '@resource-api/testing'
import t from 'tap'
import { buildApp } from '../src/app.ts'
import { createActiveProduct, readStock } from './products.ts'

const ADDRESS = {
  ...{ name: 'Ada', line1: '12 St James Square', line2: 'Garden', city: 'London' },
  ...{ region: null, postal_code: 'SW1Y 4JH', country: 'GB' },
}

/** For each status: the changes that bring an order to it, and the statuses that may follow. */
const STATUSES: Record<string, { way: string[]; next: string[] }> = {
  pending: { way: [], next: ['paid', 'cancelled'] },
  paid: { way: ['paid'], next: ['shipped', 'refunded'] },
  shipped: { way: ['paid', 'shipped'], next: ['completed', 'refunded'] },
  completed: { way: ['paid', 'shipped', 'completed'], next: ['refunded'] },
  cancelled: { way: ['cancelled'], next: [] },
  refunded: { way: ['paid', 'refunded'], next: [] },
}

const item = (product: { id: string }, quantity = 1) => ({ product_id: product.id, quantity })

/** Returns an order as a body. */
const omitId = ({ id: _, ...members }: Json): Json => members

const api = await testApp(t, buildApp)
const { admin: client, adminId, person } = api
const customer = await person('member')
const admin = createVersionedClient(client, 1)
const own = createVersionedClient(customer.client, 1)
const staff = createVersionedClient((await person('manager')).client, 1)

/** Creates active products, by default of price 500 and with a stock of 10. */
const createProducts = async (...products: Record<string, unknown>[]): Promise<Json[]> => {
  const created = []
  for (const members of products) created.push(await createActiveProduct(admin, members))
  return created
}
const readStocks = (...products: { id: string }[]) =>
  Promise.all(products.map(({ id }) => readStock(admin, id)))

const newOrder = async (by: VersionedClient, items: unknown[], members: Record<string, unknown> = {}) => {
  const reply = await by.post('/orders', { items, ...members })
  if (reply.status !== 201) throw new Error(`The order was not made: ${reply.text}`)
  return reply.data
}

/** Creates an order and brings it to a status. */
const newOrderIn = async (status: string, items: unknown[]) => {
  const { id } = await newOrder(admin, items)
  for (const each of STATUSES[status]?.way ?? []) await admin.patch(`/orders/${id}`, { status: each })
  return `/orders/${id}`
}

t.test('a new order is priced by the server and takes stock', async (t) => {
  const [tea, cup] = await createProducts({ price_amount: 350, stock: 5 }, { price_amount: 1200, stock: 2 })
  const before = await admin.get(`/products/${tea.id}`)
  const reply = await own.post('/orders', { items: [item(tea, 3), item(cup, 2)] })
  t.equal(reply.status, 201)
  const { id, number, created_at, updated_at, ...members } = reply.data
  t.match(number, /^ORD-\d{10}$/)
  t.same(members, {
    user_id: customer.id,
    items: [
      { ...item(tea, 3), sku: tea.sku, name: tea.name, unit_amount: 350, total_amount: 1050 },
      { ...item(cup, 2), sku: cup.sku, name: cup.name, unit_amount: 1200, total_amount: 2400 },
    ],
    currency: 'USD',
    total_amount: 3450,
    shipping_address: null,
    note: null,
    status: 'pending',
  })
  t.equal(reply.headers.get('location'), `/api/v1/orders/${id}`)
  t.same((await own.get(`/orders/${id}`)).data, reply.data)
  t.same(await readStocks(tea, cup), [2, 0])
  const after = await admin.get(`/products/${tea.id}`)
  t.not(after.etag, before.etag, "a product's revision moves with its stock")
  t.ok(after.data.updated_at > before.data.updated_at)
  t.equal((await admin.patch(`/products/${tea.id}`, { stock: 9 }, { 'if-match': before.etag })).status, 412)
})

t.test('order numbers increase, and an item keeps the product data of the time of the order', async (t) => {
  const [tea] = await createProducts({})
  const orders: Json[] = []
  for (let i = 0; i < 3; i++) orders.push(await newOrder(own, [item(tea)]))
  const numbers = orders.map(({ number }) => number)
  t.same([...new Set(numbers)].sort(), numbers)
  const change = { price_amount: 999, name: 'Dearer', sku: createUniqueName('NEW') }
  await admin.patch(`/products/${tea.id}`, change)
  t.same((await own.get(`/orders/${orders[0]?.id}`)).data, orders[0])
})

t.test('insufficient stock is reported per item, and no stock is taken', async (t) => {
  const [tea, cup, jug] = await createProducts({ stock: 1 }, { stock: 9 }, { stock: 0 })
  const reply = await own.post('/orders', { items: [item(tea, 2), item(cup, 9), item(jug)] })
  t.same([reply.status, reply.code], [409, 'RESOURCE_CONFLICT'])
  t.same(reply.violations, ['items.0.quantity INSUFFICIENT_STOCK', 'items.2.quantity INSUFFICIENT_STOCK'])
  t.same(await readStocks(tea, cup), [1, 9])
  t.equal((await own.post('/orders', { items: [item(tea)] })).status, 201)
  t.equal((await own.post('/orders', { items: [item(tea)] })).status, 409)
  const { body: document } = await client.get('/openapi/v1.json')
  t.match(document.paths['/api/v1/orders'].post.description, 'less stock, the response is 409')
})

t.test('in v2, violations of items and of the status name fields from the root of the body', async (t) => {
  const [tea] = await createProducts({ stock: 1 })
  const order = await newOrderIn('cancelled', [item(tea)])
  for (const [method, path, attributes, status, field, code] of [
    ['POST', '/orders', { items: [item(tea, 2)] }, 409, 'items.0.quantity', 'INSUFFICIENT_STOCK'],
    ['POST', '/orders', { items: [item({ id: UNKNOWN_ID })] }, 422, 'items.0.product_id', 'NOT_FOUND'],
    ['PATCH', order, { status: 'paid' }, 409, 'status', 'INVALID_TRANSITION'],
  ] as const) {
    const reply = await client.call(method, `/v2${path}`, { body: { data: { type: 'orders', attributes } } })
    const errors = [{ field: `data.attributes.${field}`, code }]
    t.match(reply, { status, body: { error: { errors } } })
  }
})

t.test('products that are unknown, inactive or of another currency are rejected', async (t) => {
  const kinds = [{}, { currency: 'EUR' }, { status: 'draft' }, { status: 'archived' }]
  const [dollars, euros, draft, archived] = await createProducts(...kinds)
  const items = [{ id: UNKNOWN_ID }, draft, dollars, euros, archived].map((each) => item(each))
  const reply = await admin.post('/orders', { items })
  t.same([reply.status, reply.code], [422, 'VALIDATION_ERROR'])
  t.same(reply.violations, [
    'items.0.product_id NOT_FOUND',
    'items.1.product_id NOT_FOUND',
    'items.3.product_id INVALID_VALUE',
    'items.4.product_id NOT_FOUND',
  ])
  t.same(await readStocks(dollars), [10])
  const order = await newOrder(own, [item(euros)])
  t.equal(order.currency, 'EUR')
  const mixed = await own.patch(`/orders/${order.id}`, { items: [item(euros), item(dollars)] })
  t.same(mixed.violations, ['items.1.product_id INVALID_VALUE'])
  const changed = await own.patch(`/orders/${order.id}`, { items: [item(dollars)] })
  t.equal(changed.data.currency, 'USD', 'replacing all items may change the currency')
})

t.test('a duplicate product is rejected, in any letter case of its id', async (t) => {
  const [tea] = await createProducts({})
  const again = { product_id: tea.id.toUpperCase(), quantity: 1 }
  t.same((await own.post('/orders', { items: [item(tea), again, item(tea, 0)] })).violations, [
    'items.1.product_id INVALID_VALUE',
    'items.2.product_id INVALID_VALUE',
    'items.2.quantity OUT_OF_RANGE',
  ])
  const order = await newOrder(own, [again])
  t.equal(order.items[0].product_id, tea.id)
  t.same((await own.patch(`/orders/${order.id}`, { items: [item(tea), again] })).violations, [
    'items.1.product_id INVALID_VALUE',
  ])
})

t.test('a total above 2^53 - 1 is rejected', async (t) => {
  const dear = await createProducts(...Array(10).fill({ price_amount: 1_000_000_000_000, stock: 1000 }))
  const last = dear.pop()
  const items = dear.map((each) => item(each, 1000))
  const order = await newOrder(own, items)
  t.equal(order.total_amount, 9_000_000_000_000_000)
  const refused = await own.patch(`/orders/${order.id}`, { items: [...items, item(last, 8)] })
  t.equal(refused.status, 422)
  t.same(refused.violations, ['items OUT_OF_RANGE'])
  t.same(await readStocks(last), [1000])
  const most = await own.patch(`/orders/${order.id}`, { items: [...items, item(last, 7)] })
  t.equal(most.data.total_amount, 9_007_000_000_000_000)
})

t.test('a new order is pending', async (t) => {
  const [tea] = await createProducts({})
  for (const status of ['paid', 'shipped', 'completed', 'cancelled', 'refunded']) {
    const reply = await admin.post('/orders', { items: [item(tea)], status, note: 5 })
    t.same(reply.violations, ['note INVALID_TYPE', 'status INVALID_VALUE'], 'with the other violations')
  }
  t.equal((await own.post('/orders', { items: [item(tea)], status: 'pending' })).status, 201)
  t.same(await readStocks(tea), [9])
})

t.test('only managers and admins order for another user, who must exist', async (t) => {
  const [tea] = await createProducts({})
  const order = (by: VersionedClient, user_id: unknown) => by.post('/orders', { items: [item(tea)], user_id })
  for (const user_id of [adminId, UNKNOWN_ID]) t.equal((await order(own, user_id)).status, 403)
  t.equal((await order(own, customer.id.toUpperCase())).status, 201)
  for (const by of [staff, admin]) {
    t.equal((await order(by, customer.id)).data.user_id, customer.id)
    const unknown = await order(by, UNKNOWN_ID)
    t.equal(unknown.status, 422)
    t.same(unknown.violations, ['user_id NOT_FOUND'])
  }
  t.same(await readStocks(tea), [7], 'and what was refused took nothing')
  t.same((await order(own, null)).violations, ['user_id INVALID_TYPE'])
  t.same((await order(own, 'me')).violations, ['user_id INVALID_FORMAT'])
})

t.test('an invalid status transition is rejected with the valid ones', async (t) => {
  const [tea] = await createProducts({ stock: 100 })
  for (const [from, { next }] of Object.entries(STATUSES)) {
    const path = await newOrderIn(from, [item(tea)])
    const before = await admin.get(path)
    t.equal(before.data.status, from)
    for (const to of Object.keys(STATUSES).filter((each) => each !== from && !next.includes(each))) {
      const refused = await staff.patch(path, { status: to, note: 'never kept' })
      t.same([refused.status, refused.code], [409, 'RESOURCE_CONFLICT'], `${from} -> ${to}`)
      t.same(refused.violations, ['status INVALID_TRANSITION'])
      t.match(refused.message, next.length > 0 ? `allowed: ${next.join(', ')}` : 'allowed: none')
    }
    const same = await staff.patch(path, { status: from })
    t.equal(same.status, 200)
    t.equal(same.etag, before.etag, 'the same state again is no change')
  }
})

t.test('each valid status transition succeeds, and a cancellation returns stock once', async (t) => {
  for (const [from, to, stock] of [
    ['pending', 'paid', 6],
    ['pending', 'cancelled', 10],
    ['paid', 'shipped', 6],
    ['paid', 'refunded', 10],
    ['shipped', 'completed', 6],
    ['shipped', 'refunded', 6],
    ['completed', 'refunded', 6],
  ] as const) {
    const [tea] = await createProducts({})
    const path = await newOrderIn(from, [item(tea, 4)])
    t.same(await readStocks(tea), [6], `${from} holds`)
    for (let times = 0; times < 2; times++) {
      t.equal((await staff.patch(path, { status: to })).data.status, to)
      t.same(await readStocks(tea), [stock], `${from} -> ${to}`)
    }
  }
})

t.test('a change of items adjusts the stock and prices only new items', async (t) => {
  const [tea, cup, jug] = await createProducts(...[100, 200, 300].map((price_amount) => ({ price_amount })))
  const path = `/orders/${(await newOrder(own, [item(tea, 2), item(cup, 2)])).id}`
  for (const { id, price_amount } of [tea, cup, jug]) {
    await admin.patch(`/products/${id}`, { price_amount: price_amount + 1 })
  }
  const changed = await own.patch(path, { items: [item(tea, 2), item(cup, 5), item(jug, 1)] })
  t.equal(changed.status, 200)
  t.match(changed.data, {
    items: [{ unit_amount: 100 }, { unit_amount: 201 }, { unit_amount: 301 }],
    total_amount: 200 + 1005 + 301,
  })
  t.same(await readStocks(tea, cup, jug), [8, 5, 9])
  t.equal((await own.put(path, { items: [item(jug, 1)] })).data.total_amount, 301)
  t.same(await readStocks(tea, cup, jug), [10, 10, 9])
  t.equal((await admin.delete(`/products/${tea.id}`)).status, 204, 'what is no longer ordered can go')
  t.equal((await admin.delete(`/products/${jug.id}`)).status, 409)
})

t.test('only changed items are checked against their products', async (t) => {
  const [tea, cup] = await createProducts({ stock: 3 }, {})
  const path = `/orders/${(await newOrder(own, [item(tea, 3)])).id}`
  const change = (...items: object[]) => own.patch(path, { items })
  await admin.patch(`/products/${tea.id}`, { status: 'archived', currency: 'EUR', price_amount: 1 })
  const kept = await change(item(tea, 3), item(cup, 1))
  t.equal(kept.status, 200)
  t.equal(kept.data.total_amount, 2000)
  t.same((await change(item(tea, 2), item(cup, 1))).violations, ['items.0.product_id NOT_FOUND'])
  await admin.patch(`/products/${tea.id}`, { status: 'active' })
  // A new item has the currency of its product.
  t.same((await change(item(tea, 2), item(cup, 1))).violations, ['items.1.product_id INVALID_VALUE'])
  const more = await change(item(tea, 4))
  t.same(more.violations, ['items.0.quantity INSUFFICIENT_STOCK'])
  t.match(more.text, /only 3 in stock/, 'includes the quantity that the order has reserved')
  t.equal((await own.get(path)).etag, kept.etag, 'what was refused changed nothing')
  t.same(await readStocks(tea, cup), [0, 9])
})

t.test('the same items in another sequence change no stock', async (t) => {
  const [tea, cup] = await createProducts({}, {})
  const order = await newOrder(own, [item(tea, 2), item(cup, 3)])
  await admin.patch(`/products/${tea.id}`, { price_amount: 1 })
  const turned = await own.patch(`/orders/${order.id}`, { items: [item(cup, 3), item(tea, 2)] })
  t.same(turned.data.items, order.items.toReversed())
  t.equal(turned.data.total_amount, order.total_amount)
  t.same(await readStocks(tea, cup), [8, 7])
})

t.test('items can be changed only while the order is pending', async (t) => {
  const [tea, cup] = await createProducts({ stock: 100 }, {})
  for (const state of ['paid', 'shipped', 'completed', 'cancelled', 'refunded']) {
    const path = await newOrderIn(state, [item(tea, 2)])
    const before = await admin.get(path)
    for (const items of [[item(tea, 3)], [item(tea, 2), item(cup)], [item(cup)]]) {
      const refused = await admin.patch(path, { items })
      t.same([refused.status, refused.code], [409, 'RESOURCE_CONFLICT'], state)
    }
    t.equal((await admin.patch(path, { items: [item(tea, 2)] })).etag, before.etag)
    t.equal((await admin.put(path, omitId(before.data))).etag, before.etag)
    t.equal((await admin.patch(path, { note: state })).data.note, state, 'a note is free')
  }
  t.same(await readStocks(cup), [10])
})

t.test('items and status can change together', async (t) => {
  const [tea, cup] = await createProducts({}, {})
  const [one, two] = [await newOrder(own, [item(tea, 2)]), await newOrder(own, [item(tea, 1)])]
  const paid = await admin.patch(`/orders/${one.id}`, { items: [item(tea, 5)], status: 'paid' })
  t.match(paid.data, { status: 'paid', total_amount: 2500 })
  t.same(await readStocks(tea), [4])
  const gone = await own.patch(`/orders/${two.id}`, { items: [item(cup, 3)], status: 'cancelled' })
  t.match(gone.data, { status: 'cancelled', total_amount: 1500 })
  t.same(await readStocks(tea, cup), [5, 10])
  const wrong = await admin.patch(`/orders/${one.id}`, { items: [item(tea, 1)], status: 'refunded' })
  t.equal(wrong.status, 409)
  t.same(await readStocks(tea), [5])
})

t.test('the fields that the server adds to an item are read-only', async (t) => {
  const [tea] = await createProducts({})
  const order = await newOrder(own, [item(tea)])
  const path = `/orders/${order.id}`
  const wrong = ['name', 'sku', 'total_amount', 'unit_amount'].map((name) => `items.0.${name} READ_ONLY`)
  t.same((await own.post('/orders', { items: order.items })).violations, wrong)
  t.same((await own.patch(path, { items: order.items })).violations, wrong)
  const put = await own.put(path, omitId(order))
  t.equal(put.status, 200)
  t.same(put.data, order, 'PUT takes back what was read, and nothing changed')
  const tampered = [{ ...order.items[0], unit_amount: 1, sku: 'x', total_amount: 1 }]
  t.same((await own.put(path, { items: tampered })).data.items, order.items)
  const unknown = [{ ...order.items[0], colour: 'red' }]
  t.same((await own.put(path, { items: unknown })).violations, ['items.0.colour UNKNOWN_FIELD'])
})

t.test('number, currency and total are read-only, and a PUT ignores them', async (t) => {
  const [tea] = await createProducts({})
  const items = [item(tea)]
  const order = await newOrder(own, items)
  const path = `/orders/${order.id}`
  for (const name of ['id', 'number', 'currency', 'total_amount', 'created_at', 'updated_at']) {
    const sent = { [name]: order[name] }
    t.same((await own.patch(path, sent)).violations, [`${name} READ_ONLY`])
    t.same((await own.post('/orders', { items, ...sent })).violations, [`${name} READ_ONLY`])
  }
  t.same((await own.put(path, { items, number: 'ORD-1', currency: 'EUR', total_amount: 1 })).data, order)
  t.same((await own.patch(path, { user_id: customer.id })).violations, ['user_id READ_ONLY'])
  t.same((await admin.put(path, { items, user_id: adminId })).violations, ['user_id READ_ONLY'])
})

t.test('a member changes and cancels an own pending order', async (t) => {
  const [tea] = await createProducts({ stock: 100 })
  const path = `/orders/${(await newOrder(own, [item(tea)])).id}`
  t.equal((await own.patch(path, { note: 'Ring', items: [item(tea, 2)] })).status, 200)
  for (const status of ['paid', 'shipped', 'completed', 'refunded']) {
    t.equal((await own.patch(path, { status })).status, 403, `${status}: before an invalid transition`)
  }
  await admin.patch(path, { status: 'paid' })
  const changes = [{ note: 'x' }, { items: [item(tea, 5)] }, { status: 'cancelled' }, { status: 'shipped' }]
  for (const change of changes) t.equal((await own.patch(path, change)).status, 403)
  const items = [item(tea, 2)]
  t.equal((await own.put(path, { items })).status, 403, 'the note would go')
  t.equal((await own.put(path, { items, note: 'Ring' })).status, 200, 'no change')
  const other = `/orders/${(await newOrder(own, [item(tea)])).id}`
  t.equal((await own.patch(other, { status: 'cancelled', note: 'No' })).status, 200)
  t.equal((await own.patch(other, { status: 'pending' })).status, 403)
  t.equal((await own.patch(other, { status: 'cancelled' })).status, 200)
  t.equal((await own.delete(other)).status, 403)
  t.equal((await staff.delete(other)).status, 403)
})

t.test('only a pending or cancelled order can be deleted, which returns its stock', async (t) => {
  for (const [state, statuses, stocks] of [
    ['pending', [204, 404], [7, 10]],
    ['cancelled', [204, 404], [10, 10]],
    ['paid', [409, 409], [7, 7]],
    ['shipped', [409, 409], [7, 7]],
    ['completed', [409, 409], [7, 7]],
    ['refunded', [409, 409], [10, 10]],
  ] as const) {
    const [tea] = await createProducts({})
    const path = await newOrderIn(state, [item(tea, 3)])
    const held = await readStock(admin, tea.id)
    t.same([(await admin.delete(path)).status, (await admin.delete(path)).status], statuses, state)
    t.same([held, await readStock(admin, tea.id)], stocks, state)
  }
})

t.test("a change that would raise a product's stock above its maximum is rejected", async (t) => {
  const maximum = 1_000_000_000
  const [tea, cup] = await createProducts({ stock: 3 }, {})
  const order = await newOrder(own, [item(tea, 2)])
  const pending = `/orders/${order.id}`
  const paid = await newOrderIn('paid', [item(tea, 1)])
  const setStock = async (stock: number) =>
    t.equal((await admin.patch(`/products/${tea.id}`, { stock })).status, 200)
  const cancel = () => own.patch(pending, { status: 'cancelled' })
  const refund = () => staff.patch(paid, { status: 'refunded' })

  await setStock(maximum)
  for (const { status, code, message } of [
    await cancel(),
    await own.put(pending, { items: [item(tea, 2)], status: 'cancelled' }),
    await own.patch(pending, { items: [item(tea, 1)] }),
    await own.patch(pending, { items: [item(cup, 1)] }),
    await admin.delete(pending),
    await refund(),
  ]) {
    t.same({ status, code }, { status: 409, code: 'RESOURCE_CONFLICT' })
    t.equal(message, `The stock of product ${tea.sku} would exceed ${maximum}; lower it first`)
  }
  t.same(await readStocks(tea, cup), [maximum, 10], 'and of the others none is taken')
  t.same((await own.get(pending)).data, order)
  t.equal((await staff.get(paid)).data.status, 'paid')

  await setStock(maximum - 2)
  const both = await Promise.all([cancel(), refund()])
  t.same(both.map(({ status }) => status).sort(), [200, 409], 'there is room for one of them')
  t.ok((await readStock(admin, tea.id)) <= maximum)
  await setStock(0)
  t.equal((await cancel()).data.status, 'cancelled')
  t.equal((await refund()).data.status, 'refunded')
})

t.test('PATCH merges the address, which is complete or absent', async (t) => {
  const [tea] = await createProducts({})
  const { line2: _, region: __, ...required } = ADDRESS
  const order = await newOrder(own, [item(tea)], { shipping_address: required })
  t.same(order.shipping_address, { ...ADDRESS, line2: null })
  const path = `/orders/${order.id}`
  const patch = (shipping_address: unknown) => own.patch(path, { shipping_address })
  const moved = await patch({ line2: 'Garden', city: 'Bath' })
  t.same(moved.data.shipping_address, { ...ADDRESS, city: 'Bath' })
  t.same((await patch({ line2: null })).data.shipping_address.line2, null)
  t.same((await patch({ city: null })).violations, ['shipping_address.city INVALID_TYPE'])
  t.same((await patch({ street: 'x' })).violations, ['shipping_address.street UNKNOWN_FIELD'])
  const { etag, data } = await own.get(path)
  const reversed = Object.fromEntries(Object.entries(data.shipping_address).reverse())
  for (const same of [{ city: ' Bath ' }, {}, reversed]) t.equal((await patch(same)).etag, etag)
  t.equal((await patch(null)).data.shipping_address, null)
  t.same((await patch({ city: 'Bath', country: 'GB' })).violations, [
    'shipping_address.line1 REQUIRED',
    'shipping_address.name REQUIRED',
    'shipping_address.postal_code REQUIRED',
  ])
  const put = (members: object) => own.put(path, { items: [item(tea)], ...members })
  t.same((await put({ shipping_address: ADDRESS })).data.shipping_address, ADDRESS)
  t.equal((await put({})).data.shipping_address, null)
})

t.test('a user with orders cannot be deleted', async (t) => {
  const { id, client: user } = await person('member')
  const [tea] = await createProducts({})
  const order = await newOrder(createVersionedClient(user, 1), [item(tea)])
  const refused = await admin.delete(`/users/${id}`)
  t.same([refused.status, refused.code], [409, 'RESOURCE_CONFLICT'])
  t.notMatch(refused.text, /constraint|violates|foreign/i)
  t.equal((await admin.delete(`/orders/${order.id}`)).status, 204)
  t.equal((await admin.delete(`/users/${id}`)).status, 204)
})

t.test('orders are listed by the status of their user, and by what they lack', async (t) => {
  const { id, client: user } = await person('member')
  const [tea] = await createProducts({})
  const order = await newOrder(createVersionedClient(user, 1), [item(tea)], { note: 'Ring' })
  const find = async (by: typeof client, query: string) => {
    const { body } = await by.get(`/v2/orders?user_id=${id}&${query}`)
    return body.data.map((each: Json) => each.id)
  }
  for (const [query, found] of [
    ['user.status=active,inactive', [order.id]],
    ['user.status=suspended', []],
    ['note_null=false&shipping_address_null=true', [order.id]],
    ['note_null=true', []],
    ['status_not=paid,cancelled', [order.id]],
    ['status_not=pending', []],
  ] as const) {
    t.same(await find(client, query), found, query)
    t.same(await find(user, query), found, query)
  }
  t.same(await find(customer.client, 'user.status=active'), [], 'for another member')
})

t.test('the list has the promised filters, sorts, searched fields and relations', async (t) => {
  t.same(describeList(api, 'orders'), {
    filters: [
      ...['status', 'user_id', 'number', 'status_not'],
      ...['shipping_address_null', 'note_null', 'user.status'],
    ],
    ranges: ['total_amount'],
    sorts: ['number', 'total_amount', 'created_at', 'updated_at'],
    search: ['number', 'note'],
    include: { user: 'users', products: 'products' },
  })
})

t.test('a dry run takes no stock and no number', async (t) => {
  const [tea] = await createProducts({ stock: 500 })
  const create = async (): Promise<Json> => (await client.post('/orders', { items: [item(tea)] })).body.data
  const first = await create()
  const operations = Array.from({ length: 100 }, () => ({
    ...{ method: 'POST', path: '/orders', body: { items: [item(tea)] } },
  }))
  const replies = await Promise.all([
    client.post('/batches?dry_run=true', { operations }),
    client.post('/batches?dry_run=true', { operations }),
    client.post('/orders?dry_run=true', { items: [item(tea)] }),
  ])
  t.same(
    replies.map(({ status }) => status),
    [200, 200, 201],
  )
  const numbers = new Set(replies[0]?.body.data.results.map(({ body }: Json) => body.number))
  t.equal(numbers.size, 100)
  for (const number of numbers) t.match(number, /^ORD-\d{10}$/)
  const second = await create()
  t.equal(Number(second.number.slice(4)), Number(first.number.slice(4)) + 1)
  t.equal((await client.get(`/products/${tea.id}`)).body.data.stock, 498)
})
