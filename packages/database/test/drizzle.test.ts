/** Drizzle's builders run on the clients of the service, and a prepared statement runs on any of them. */
import { and, eq, sql } from 'drizzle-orm'
import t from 'tap'
import { v7 as uuid } from 'uuid'
import { testDatabase } from '../../testing/helpers/database.ts'
import { orders } from '../../testing/helpers/shop.ts'
import { prepare } from '../src/client/prepare.ts'
import { isAnyOf } from '../src/expressions.ts'
import { users } from '../src/user-tables.ts'

const database = await testDatabase(t)
const [ada, bob] = [uuid(), uuid()]
const created = await database
  .insert(users)
  .values([
    { id: ada, name: 'Ada', email: 'ada@example.com' },
    { id: bob, name: 'Bob "B", \\', email: 'bob@example.com' },
  ])
  .returning({ id: users.id, revision: users.revision, created_at: users.created_at })

t.test('a builder runs on the database, with the types of its columns', async (t) => {
  t.match(created, [
    { id: ada, revision: 1, created_at: /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[.\d]*\+00$/ },
    { id: bob },
  ])
  const rows = await database.select({ name: users.name }).from(users).where(eq(users.id, ada))
  t.strictSame(rows, [{ name: 'Ada' }])
  const counted = await database.execute<{ count: number }>(sql`select count(*) from ${users}`)
  t.strictSame(counted, [{ count: 2 }])
})

t.test('a prepared statement runs on the database and in a transaction', async (t) => {
  let built = 0
  const findNames = prepare((db) => {
    built += 1
    return db
      .select({ name: users.name, orders: sql<number>`count(${orders.id})`.as('orders') })
      .from(users)
      .leftJoin(orders, eq(orders.user_id, users.id))
      .where(and(isAnyOf(users.id, sql.placeholder('ids')), eq(users.status, 'active')))
      .groupBy(users.id)
      .orderBy(users.name)
  })
  t.strictSame(await findNames(database, { ids: [ada] }), [{ name: 'Ada', orders: 0 }])
  const both = await database.transaction((tx) => findNames(tx, { ids: [ada, bob, uuid()] }))
  t.strictSame(
    both.map(({ name }) => name),
    ['Ada', 'Bob "B", \\'],
  )
  t.strictSame(await findNames(database, { ids: [] }), [])
  t.equal(built, 1)
})

t.test('a value is encoded by its column, and null is SQL NULL', async (t) => {
  const insert = prepare((db) =>
    db
      .insert(orders)
      .values({
        id: uuid(),
        user_id: ada,
        items: sql.placeholder('items'),
        currency: 'EUR',
        total_amount: 1,
        shipping_address: sql.placeholder('address'),
      })
      .returning({
        items: orders.items,
        address: sql<boolean>`${orders.shipping_address} is null`.as('address'),
      }),
  )
  t.strictSame(await insert(database, { items: [{ sku: 'a' }], address: null }), [
    { items: [{ sku: 'a' }], address: true },
  ])
  await t.rejects(insert(database, { items: [] }), TypeError, 'a value that is missing')
})

t.test('a field is selected under any name', async (t) => {
  const { id: orderId } = orders
  const rows = await database
    .select({ user_id: users.id, order_id: orderId, 'a "b"': users.name, n: sql<number>`1 + 1` })
    .from(users)
    .leftJoin(orders, and(eq(orders.user_id, users.id), sql`false`))
    .where(isAnyOf(users.id, [ada, bob]))
    .orderBy(users.name)
  t.strictSame(rows, [
    { user_id: ada, order_id: null, 'a "b"': 'Ada', n: 2 },
    { user_id: bob, order_id: null, 'a "b"': 'Bob "B", \\', n: 2 },
  ])
  const counted = database.select({ total: sql<number>`count(*)`.as('count') }).from(users)
  t.strictSame(await counted.where(eq(users.id, sql`${ada}`)), [{ total: 1 }])
  const locked = await database.transaction((tx) =>
    tx.select({ other: users.name }).from(users).where(eq(users.id, ada)).for('update'),
  )
  t.strictSame(locked, [{ other: 'Ada' }])
  const find = prepare((db) =>
    db
      .select({ other: users.name })
      .from(users)
      .where(eq(users.id, sql.placeholder('id'))),
  )
  t.strictSame(await find(database, { id: bob }), [{ other: 'Bob "B", \\' }])
})

t.test('a field that a write returns, or a query over a query, has any name', async (t) => {
  const id = uuid()
  const values = { id, name: 'Eve', email: 'eve@example.com' }
  const names = { other: users.name, length: sql<number>`length(${users.name})` }
  const expected = [{ other: 'Eve', length: 3 }]
  t.strictSame(await database.insert(users).values(values).returning(names), expected)
  const same = eq(users.id, id)
  t.strictSame(await database.update(users).set({ name: 'Eve' }).where(same).returning(names), expected)
  const inner = database.select({ id: users.id, name: users.name }).from(users).where(same).as('inner')
  t.strictSame(await database.select({ other: inner.name }).from(inner), [{ other: 'Eve' }])
  const listed = database.$with('listed').as(database.select({ name: users.name }).from(users).where(same))
  t.strictSame(await database.with(listed).select({ other: listed.name }).from(listed), [{ other: 'Eve' }])
  t.strictSame(await database.delete(users).where(same).returning(names), expected)
})

t.test('a nested selection is refused', async (t) => {
  await t.rejects(database.select({ user: { id: users.id } }).from(users), /user\.id is nested.* user_id/)
})
