/** Orders are priced by the server, reserve stock, and follow the documented status transitions. */
import t from 'tap'
import { testApp, UNKNOWN_ID } from '../helpers/app.ts'
import {
  createActiveProduct,
  createUniqueName,
  createVersionedClient,
  omitId,
  readStock,
  VERSIONS,
  type VersionedClient,
} from '../helpers/versioned-client.ts'

const ADDRESS = {
  name: 'Ada',
  line1: '12 St James Square',
  line2: 'Garden',
  city: 'London',
  region: null,
  postal_code: 'SW1Y 4JH',
  country: 'GB',
}

const LEGAL: Record<string, string[]> = {
  pending: ['paid', 'cancelled'],
  paid: ['shipped', 'refunded'],
  shipped: ['completed', 'refunded'],
  completed: ['refunded'],
  cancelled: [],
  refunded: [],
}

/** How an order comes to each of its states. */
const WAYS: Record<string, string[]> = {
  pending: [],
  paid: ['paid'],
  shipped: ['paid', 'shipped'],
  completed: ['paid', 'shipped', 'completed'],
  cancelled: ['cancelled'],
  refunded: ['paid', 'refunded'],
}

const item = (product: { id: string }, quantity = 1) => ({ product_id: product.id, quantity })

t.test('orders', async (t) => {
  const { admin: client, adminId, person } = await testApp(t)
  const customer = await person('member')
  const clerk = await person('manager')

  const newOrder = async (by: VersionedClient, items: unknown[], members: Record<string, unknown> = {}) => {
    const reply = await by.post('/orders', { items, ...members })
    if (reply.status !== 201) throw new Error(`The order was not made: ${reply.text}`)
    return reply.data
  }

  const bring = async (by: VersionedClient, id: string, state: string) => {
    for (const status of WAYS[state] ?? []) await by.patch(`/orders/${id}`, { status })
  }

  for (const version of VERSIONS) {
    const admin = createVersionedClient(client, version)
    const own = createVersionedClient(customer.client, version)
    const staff = createVersionedClient(clerk.client, version)

    t.test(`v${version}: a new order is priced by the server and takes stock`, async (t) => {
      const [tea, cup] = [
        await createActiveProduct(admin, { price_amount: 350, stock: 5 }),
        await createActiveProduct(admin, { price_amount: 1200, stock: 2 }),
      ]
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
      t.equal(reply.headers.get('location'), `/api/v${version}/orders/${id}`)
      t.same((await own.get(`/orders/${id}`)).data, reply.data)
      t.same([await readStock(admin, tea.id), await readStock(admin, cup.id)], [2, 0])
      const after = await admin.get(`/products/${tea.id}`)
      t.not(after.etag, before.etag, "a product's revision moves with its stock")
      t.ok(after.data.updated_at > before.data.updated_at)
      t.equal(
        (await admin.patch(`/products/${tea.id}`, { stock: 9 }, { 'if-match': before.etag })).status,
        412,
      )
    })

    t.test(`v${version}: order numbers increase`, async (t) => {
      const tea = await createActiveProduct(admin)
      const numbers = []
      for (let i = 0; i < 3; i++) numbers.push((await newOrder(own, [item(tea)])).number)
      t.same([...numbers].sort(), numbers)
      t.equal(new Set(numbers).size, 3)
    })

    t.test(`v${version}: an item keeps the product data of the time of the order`, async (t) => {
      const tea = await createActiveProduct(admin, { price_amount: 100 })
      const order = await newOrder(own, [item(tea, 2)])
      await admin.patch(`/products/${tea.id}`, {
        price_amount: 999,
        name: 'Dearer',
        sku: createUniqueName('NEW'),
      })
      t.same((await own.get(`/orders/${order.id}`)).data, order)
    })

    t.test(`v${version}: insufficient stock is reported per item, and no stock is taken`, async (t) => {
      const [tea, cup, jug] = [
        await createActiveProduct(admin, { stock: 1 }),
        await createActiveProduct(admin, { stock: 9 }),
        await createActiveProduct(admin, { stock: 0 }),
      ]
      const reply = await own.post('/orders', { items: [item(tea, 2), item(cup, 9), item(jug)] })
      t.equal(reply.status, 409)
      t.equal(reply.code, 'RESOURCE_CONFLICT')
      t.same(reply.violations, ['items.0.quantity INSUFFICIENT_STOCK', 'items.2.quantity INSUFFICIENT_STOCK'])
      t.same([await readStock(admin, tea.id), await readStock(admin, cup.id)], [1, 9])
      t.equal((await own.post('/orders', { items: [item(tea, 1)] })).status, 201)
      t.equal((await own.post('/orders', { items: [item(tea, 1)] })).status, 409)
    })

    t.test(
      `v${version}: products that are unknown, inactive or of another currency are rejected`,
      async (t) => {
        const dollars = await createActiveProduct(admin)
        const euros = await createActiveProduct(admin, { currency: 'EUR' })
        const draft = await createActiveProduct(admin, { status: 'draft' })
        const archived = await createActiveProduct(admin, { status: 'archived' })
        const reply = await admin.post('/orders', {
          items: [item({ id: UNKNOWN_ID }), item(draft), item(dollars), item(euros), item(archived)],
        })
        t.equal(reply.status, 422)
        t.equal(reply.code, 'VALIDATION_ERROR')
        t.same(reply.violations, [
          'items.0.product_id NOT_FOUND',
          'items.1.product_id NOT_FOUND',
          'items.3.product_id INVALID_VALUE',
          'items.4.product_id NOT_FOUND',
        ])
        t.equal(await readStock(admin, dollars.id), 10)
        const order = await newOrder(own, [item(euros)])
        t.equal(order.currency, 'EUR')
        const mixed = await own.patch(`/orders/${order.id}`, { items: [item(euros), item(dollars)] })
        t.same(mixed.violations, ['items.1.product_id INVALID_VALUE'])
        const changed = await own.patch(`/orders/${order.id}`, { items: [item(dollars)] })
        t.equal(changed.data.currency, 'USD', 'replacing all items may change the currency')
      },
    )

    t.test(`v${version}: a duplicate product is rejected, in any letter case of its id`, async (t) => {
      const tea = await createActiveProduct(admin)
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

    t.test(`v${version}: a total above 2^53 - 1 is rejected`, async (t) => {
      const dear = []
      for (let i = 0; i < 10; i++) {
        dear.push(await createActiveProduct(admin, { price_amount: 1_000_000_000_000, stock: 1000 }))
      }
      const order = await newOrder(
        own,
        dear.slice(0, 9).map((each) => item(each, 1000)),
      )
      t.equal(order.total_amount, 9_000_000_000_000_000)
      const items = [...dear.slice(0, 9).map((each) => item(each, 1000)), item(dear[9], 8)]
      const refused = await own.patch(`/orders/${order.id}`, { items })
      t.equal(refused.status, 422)
      t.same(refused.violations, ['items OUT_OF_RANGE'])
      t.equal(await readStock(admin, dear[9].id), 1000)
      const most = await own.patch(`/orders/${order.id}`, { items: items.with(9, item(dear[9], 7)) })
      t.equal(most.data.total_amount, 9_007_000_000_000_000)
    })

    t.test(`v${version}: a new order is pending`, async (t) => {
      const tea = await createActiveProduct(admin)
      for (const status of ['paid', 'shipped', 'completed', 'cancelled', 'refunded']) {
        const reply = await admin.post('/orders', { items: [item(tea)], status, note: 5 })
        t.same(
          reply.violations,
          ['note INVALID_TYPE', 'status INVALID_VALUE'],
          'reported with the other violations',
        )
      }
      t.equal((await own.post('/orders', { items: [item(tea)], status: 'pending' })).status, 201)
      t.equal(await readStock(admin, tea.id), 9)
    })

    t.test(`v${version}: only managers and admins order for another user, who must exist`, async (t) => {
      const tea = await createActiveProduct(admin)
      const items = [item(tea)]
      for (const user_id of [adminId, UNKNOWN_ID]) {
        t.equal((await own.post('/orders', { items, user_id })).status, 403)
      }
      t.equal((await own.post('/orders', { items, user_id: customer.id.toUpperCase() })).status, 201)
      for (const by of [staff, admin]) {
        t.equal((await by.post('/orders', { items, user_id: customer.id })).data.user_id, customer.id)
        const unknown = await by.post('/orders', { items, user_id: UNKNOWN_ID })
        t.equal(unknown.status, 422)
        t.same(unknown.violations, ['user_id NOT_FOUND'])
      }
      t.equal(await readStock(admin, tea.id), 7, 'and what was refused took nothing')
      t.same((await own.post('/orders', { items, user_id: null })).violations, ['user_id INVALID_TYPE'])
      t.same((await own.post('/orders', { items, user_id: 'me' })).violations, ['user_id INVALID_FORMAT'])
    })

    t.test(`v${version}: an invalid status transition is rejected with the valid ones`, async (t) => {
      const tea = await createActiveProduct(admin, { stock: 100 })
      for (const [from, legal] of Object.entries(LEGAL)) {
        const { id } = await newOrder(admin, [item(tea)])
        await bring(admin, id, from)
        const before = await admin.get(`/orders/${id}`)
        t.equal(before.data.status, from)
        for (const to of Object.keys(LEGAL).filter((to) => to !== from && !legal.includes(to))) {
          const refused = await staff.patch(`/orders/${id}`, { status: to, note: 'never kept' })
          t.equal(refused.status, 409, `${from} -> ${to}`)
          t.equal(refused.code, 'RESOURCE_CONFLICT')
          t.same(refused.violations, ['status INVALID_TRANSITION'])
          t.match(refused.message, legal.length > 0 ? `allowed: ${legal.join(', ')}` : 'allowed: none')
        }
        const same = await staff.patch(`/orders/${id}`, { status: from })
        t.equal(same.status, 200)
        t.equal(same.etag, before.etag, 'the same state again is no change')
      }
    })

    t.test(
      `v${version}: each valid status transition succeeds, and a cancellation returns stock`,
      async (t) => {
        for (const [from, legal] of Object.entries(LEGAL)) {
          for (const to of legal) {
            const tea = await createActiveProduct(admin)
            const { id } = await newOrder(admin, [item(tea, 4)])
            await bring(admin, id, from)
            t.equal(await readStock(admin, tea.id), 6, `${from} holds`)
            t.equal((await staff.patch(`/orders/${id}`, { status: to })).data.status, to)
            const returned = to === 'cancelled' || (from === 'paid' && to === 'refunded')
            t.equal(await readStock(admin, tea.id), returned ? 10 : 6, `${from} -> ${to}`)
            await staff.patch(`/orders/${id}`, { status: to })
            t.equal(await readStock(admin, tea.id), returned ? 10 : 6, 'once')
          }
        }
      },
    )

    t.test(`v${version}: a change of items adjusts the stock and prices only new items`, async (t) => {
      const [tea, cup, jug] = [
        await createActiveProduct(admin, { price_amount: 100 }),
        await createActiveProduct(admin, { price_amount: 200 }),
        await createActiveProduct(admin, { price_amount: 300 }),
      ]
      const { id } = await newOrder(own, [item(tea, 2), item(cup, 2)])
      for (const each of [tea, cup, jug]) {
        await admin.patch(`/products/${each.id}`, { price_amount: each.price_amount + 1 })
      }
      const changed = await own.patch(`/orders/${id}`, { items: [item(tea, 2), item(cup, 5), item(jug, 1)] })
      t.equal(changed.status, 200)
      t.same(
        changed.data.items.map(({ unit_amount }: { unit_amount: number }) => unit_amount),
        [100, 201, 301],
      )
      t.equal(changed.data.total_amount, 200 + 1005 + 301)
      t.same([await readStock(admin, tea.id), await readStock(admin, cup.id)], [8, 5])
      t.equal(await readStock(admin, jug.id), 9)
      const less = await own.put(`/orders/${id}`, { items: [item(jug, 1)] })
      t.equal(less.data.total_amount, 301)
      t.same(
        [await readStock(admin, tea.id), await readStock(admin, cup.id), await readStock(admin, jug.id)],
        [10, 10, 9],
      )
      t.equal((await admin.delete(`/products/${tea.id}`)).status, 204, 'what is no longer ordered can go')
      t.equal((await admin.delete(`/products/${jug.id}`)).status, 409)
    })

    t.test(`v${version}: only changed items are checked against their products`, async (t) => {
      const [tea, cup] = [await createActiveProduct(admin, { stock: 3 }), await createActiveProduct(admin)]
      const { id } = await newOrder(own, [item(tea, 3)])
      await admin.patch(`/products/${tea.id}`, { status: 'archived', currency: 'EUR', price_amount: 1 })
      const kept = await own.patch(`/orders/${id}`, { items: [item(tea, 3), item(cup, 1)] })
      t.equal(kept.status, 200)
      t.equal(kept.data.total_amount, 2000)
      const fewer = await own.patch(`/orders/${id}`, { items: [item(tea, 2), item(cup, 1)] })
      t.same(fewer.violations, ['items.0.product_id NOT_FOUND'])
      await admin.patch(`/products/${tea.id}`, { status: 'active' })
      const mixed = await own.patch(`/orders/${id}`, { items: [item(tea, 2), item(cup, 1)] })
      t.same(
        mixed.violations,
        ['items.1.product_id INVALID_VALUE'],
        'a new item has the currency of its product',
      )
      const more = await own.patch(`/orders/${id}`, { items: [item(tea, 4)] })
      t.same(more.violations, ['items.0.quantity INSUFFICIENT_STOCK'])
      t.match(more.text, /only 3 in stock/, 'includes the quantity that the order has reserved')
      t.equal((await own.get(`/orders/${id}`)).etag, kept.etag, 'what was refused changed nothing')
      t.same([await readStock(admin, tea.id), await readStock(admin, cup.id)], [0, 9])
    })

    t.test(`v${version}: the same items in another sequence change no stock`, async (t) => {
      const [tea, cup] = [await createActiveProduct(admin), await createActiveProduct(admin)]
      const order = await newOrder(own, [item(tea, 2), item(cup, 3)])
      await admin.patch(`/products/${tea.id}`, { price_amount: 1 })
      const turned = await own.patch(`/orders/${order.id}`, { items: [item(cup, 3), item(tea, 2)] })
      t.same(turned.data.items, order.items.toReversed())
      t.equal(turned.data.total_amount, order.total_amount)
      t.same([await readStock(admin, tea.id), await readStock(admin, cup.id)], [8, 7])
    })

    t.test(`v${version}: items can be changed only while the order is pending`, async (t) => {
      const [tea, cup] = [await createActiveProduct(admin, { stock: 100 }), await createActiveProduct(admin)]
      for (const state of Object.keys(WAYS).filter((state) => state !== 'pending')) {
        const { id } = await newOrder(admin, [item(tea, 2)])
        await bring(admin, id, state)
        const before = await admin.get(`/orders/${id}`)
        for (const items of [[item(tea, 3)], [item(tea, 2), item(cup)], [item(cup)]]) {
          const refused = await admin.patch(`/orders/${id}`, { items })
          t.equal(refused.status, 409, state)
          t.equal(refused.code, 'RESOURCE_CONFLICT')
        }
        t.equal((await admin.patch(`/orders/${id}`, { items: [item(tea, 2)] })).etag, before.etag)
        t.equal((await admin.put(`/orders/${id}`, omitId(before.data))).etag, before.etag)
        t.equal((await admin.patch(`/orders/${id}`, { note: state })).data.note, state, 'a note is free')
      }
      t.equal(await readStock(admin, cup.id), 10)
    })

    t.test(`v${version}: items and status can change together`, async (t) => {
      const [tea, cup] = [await createActiveProduct(admin), await createActiveProduct(admin)]
      const one = await newOrder(own, [item(tea, 2)])
      const paid = await admin.patch(`/orders/${one.id}`, { items: [item(tea, 5)], status: 'paid' })
      t.match(paid.data, { status: 'paid', total_amount: 2500 })
      t.equal(await readStock(admin, tea.id), 5)
      const two = await newOrder(own, [item(tea, 1)])
      const gone = await own.patch(`/orders/${two.id}`, { items: [item(cup, 3)], status: 'cancelled' })
      t.match(gone.data, { status: 'cancelled', total_amount: 1500 })
      t.same([await readStock(admin, tea.id), await readStock(admin, cup.id)], [5, 10])
      const wrong = await admin.patch(`/orders/${one.id}`, { items: [item(tea, 1)], status: 'refunded' })
      t.equal(wrong.status, 409)
      t.equal(await readStock(admin, tea.id), 5)
    })

    t.test(`v${version}: the fields that the server adds to an item are read-only`, async (t) => {
      const tea = await createActiveProduct(admin)
      const order = await newOrder(own, [item(tea)])
      const wrong = ['name', 'sku', 'total_amount', 'unit_amount'].map((name) => `items.0.${name} READ_ONLY`)
      t.same((await own.post('/orders', { items: order.items })).violations, wrong)
      t.same((await own.patch(`/orders/${order.id}`, { items: order.items })).violations, wrong)
      const put = await own.put(`/orders/${order.id}`, omitId(order))
      t.equal(put.status, 200)
      t.same(put.data, order, 'PUT takes back what was read, and nothing changed')
      const tampered = [{ ...order.items[0], unit_amount: 1, sku: 'x', total_amount: 1 }]
      t.same((await own.put(`/orders/${order.id}`, { items: tampered })).data.items, order.items)
      const unknown = [{ ...order.items[0], colour: 'red' }]
      t.same((await own.put(`/orders/${order.id}`, { items: unknown })).violations, [
        'items.0.colour UNKNOWN_FIELD',
      ])
    })

    t.test(`v${version}: number, currency and total are read-only`, async (t) => {
      const tea = await createActiveProduct(admin)
      const order = await newOrder(own, [item(tea)])
      for (const name of ['id', 'number', 'currency', 'total_amount', 'created_at', 'updated_at']) {
        const wrong = [`${name} READ_ONLY`]
        const sent = { [name]: order[name] }
        t.same((await own.patch(`/orders/${order.id}`, sent)).violations, wrong)
        t.same((await own.post('/orders', { items: [item(tea)], ...sent })).violations, wrong)
      }
      const put = await own.put(`/orders/${order.id}`, {
        items: [item(tea)],
        number: 'ORD-1',
        currency: 'EUR',
        total_amount: 1,
      })
      t.same(put.data, order)
      t.same((await own.patch(`/orders/${order.id}`, { user_id: customer.id })).violations, [
        'user_id READ_ONLY',
      ])
      t.same((await admin.put(`/orders/${order.id}`, { items: [item(tea)], user_id: adminId })).violations, [
        'user_id READ_ONLY',
      ])
    })

    t.test(`v${version}: a member changes and cancels an own pending order`, async (t) => {
      const tea = await createActiveProduct(admin, { stock: 100 })
      const { id } = await newOrder(own, [item(tea)])
      t.equal((await own.patch(`/orders/${id}`, { note: 'Ring', items: [item(tea, 2)] })).status, 200)
      for (const status of ['paid', 'shipped', 'completed', 'refunded']) {
        const refused = await own.patch(`/orders/${id}`, { status })
        t.equal(
          refused.status,
          403,
          `${status}: a missing permission is reported before an invalid transition`,
        )
      }
      await admin.patch(`/orders/${id}`, { status: 'paid' })
      for (const change of [
        { note: 'x' },
        { items: [item(tea, 5)] },
        { status: 'cancelled' },
        { status: 'shipped' },
      ]) {
        t.equal((await own.patch(`/orders/${id}`, change)).status, 403)
      }
      t.equal((await own.put(`/orders/${id}`, { items: [item(tea, 2)] })).status, 403, 'the note would go')
      t.equal(
        (await own.put(`/orders/${id}`, { items: [item(tea, 2)], note: 'Ring' })).status,
        200,
        'no change',
      )
      const other = await newOrder(own, [item(tea)])
      t.equal((await own.patch(`/orders/${other.id}`, { status: 'cancelled', note: 'No' })).status, 200)
      t.equal((await own.patch(`/orders/${other.id}`, { status: 'pending' })).status, 403)
      t.equal((await own.patch(`/orders/${other.id}`, { status: 'cancelled' })).status, 200)
      t.equal((await own.delete(`/orders/${other.id}`)).status, 403)
      t.equal((await staff.delete(`/orders/${other.id}`)).status, 403)
    })

    t.test(
      `v${version}: only a pending or cancelled order can be deleted, which returns its stock`,
      async (t) => {
        const tea = await createActiveProduct(admin, { stock: 100 })
        for (const state of Object.keys(WAYS)) {
          const before = await readStock(admin, tea.id)
          const { id } = await newOrder(admin, [item(tea, 3)])
          await bring(admin, id, state)
          const held = await readStock(admin, tea.id)
          const removed = await admin.delete(`/orders/${id}`)
          const goes = state === 'pending' || state === 'cancelled'
          t.equal(removed.status, goes ? 204 : 409, state)
          t.equal(await readStock(admin, tea.id), goes ? before : held)
          t.equal((await admin.delete(`/orders/${id}`)).status, goes ? 404 : 409)
        }
      },
    )

    t.test(
      `v${version}: a change that would raise a product's stock above its maximum is rejected`,
      async (t) => {
        const maximum = 1_000_000_000
        const tea = await createActiveProduct(admin, { stock: 3 })
        const pending = await newOrder(own, [item(tea, 2)])
        const paid = await newOrder(own, [item(tea, 1)])
        await bring(staff, paid.id, 'paid')
        const setStock = async (stock: number) =>
          t.equal((await admin.patch(`/products/${tea.id}`, { stock })).status, 200)

        await setStock(maximum)
        const cup = await createActiveProduct(admin)
        const replies = [
          await own.patch(`/orders/${pending.id}`, { status: 'cancelled' }),
          await own.put(`/orders/${pending.id}`, { items: [item(tea, 2)], status: 'cancelled' }),
          await own.patch(`/orders/${pending.id}`, { items: [item(tea, 1)] }),
          await own.patch(`/orders/${pending.id}`, { items: [item(cup, 1)] }),
          await admin.delete(`/orders/${pending.id}`),
          await staff.patch(`/orders/${paid.id}`, { status: 'refunded' }),
        ]
        const expected = `The stock of product ${tea.sku} would exceed ${maximum}; lower it first`
        for (const { status, code, message } of replies) {
          t.same({ status, code }, { status: 409, code: 'RESOURCE_CONFLICT' })
          t.equal(message, expected)
        }
        t.equal(await readStock(admin, tea.id), maximum)
        t.equal(await readStock(admin, cup.id), 10, 'and of the others none is taken')
        const unchanged = (await own.get(`/orders/${pending.id}`)).data
        t.same([unchanged.status, unchanged.items], ['pending', pending.items])
        t.equal((await staff.get(`/orders/${paid.id}`)).data.status, 'paid')

        await setStock(maximum - 2)
        const both = await Promise.all([
          own.patch(`/orders/${pending.id}`, { status: 'cancelled' }),
          staff.patch(`/orders/${paid.id}`, { status: 'refunded' }),
        ])
        t.same(both.map(({ status }) => status).sort(), [200, 409], 'there is room for one of them')
        t.ok((await readStock(admin, tea.id)) <= maximum)
        await setStock(0)
        await own.patch(`/orders/${pending.id}`, { status: 'cancelled' })
        await staff.patch(`/orders/${paid.id}`, { status: 'refunded' })
        t.equal((await own.get(`/orders/${pending.id}`)).data.status, 'cancelled')
        t.equal((await own.get(`/orders/${paid.id}`)).data.status, 'refunded')
      },
    )

    t.test(`v${version}: PATCH merges the address, which is complete or absent`, async (t) => {
      const tea = await createActiveProduct(admin)
      const { line2: _, region: __, ...required } = ADDRESS
      const order = await newOrder(own, [item(tea)], { shipping_address: required })
      t.same(order.shipping_address, { ...ADDRESS, line2: null })
      const path = `/orders/${order.id}`
      const moved = await own.patch(path, { shipping_address: { line2: 'Garden', city: 'Bath' } })
      t.same(moved.data.shipping_address, { ...ADDRESS, city: 'Bath' })
      t.same((await own.patch(path, { shipping_address: { line2: null } })).data.shipping_address.line2, null)
      t.same((await own.patch(path, { shipping_address: { city: null } })).violations, [
        'shipping_address.city INVALID_TYPE',
      ])
      t.same((await own.patch(path, { shipping_address: { street: 'x' } })).violations, [
        'shipping_address.street UNKNOWN_FIELD',
      ])
      const same = await own.get(path)
      t.equal((await own.patch(path, { shipping_address: { city: ' Bath ' } })).etag, same.etag)
      t.equal((await own.patch(path, { shipping_address: {} })).etag, same.etag)
      t.equal((await own.patch(path, { shipping_address: null })).data.shipping_address, null)
      t.same((await own.patch(path, { shipping_address: { city: 'Bath', country: 'GB' } })).violations, [
        'shipping_address.line1 REQUIRED',
        'shipping_address.name REQUIRED',
        'shipping_address.postal_code REQUIRED',
      ])
      t.same(
        (await own.put(path, { items: [item(tea)], shipping_address: ADDRESS })).data.shipping_address,
        ADDRESS,
      )
      t.equal((await own.put(path, { items: [item(tea)] })).data.shipping_address, null)
    })

    t.test(`v${version}: search covers number and note`, async (t) => {
      const tea = await createActiveProduct(admin)
      const note = createUniqueName('Überraschung')
      const { id, number } = await newOrder(own, [item(tea)], { note })
      const found = async (search: string) =>
        (await own.get(`/orders?search=${encodeURIComponent(search)}`)).data.map(
          (each: { id: string }) => each.id,
        )
      t.same(await found(number.toLowerCase()), [id])
      t.same(await found(note.toUpperCase()), [id])
      await own.patch(`/orders/${id}`, { note: null })
      t.same([await found(note), await found(number)], [[], [id]])
    })
  }
})
