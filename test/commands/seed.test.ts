/** Demo data is what the API itself would create, and identical for the same seed. */

import type { TSchema } from '@sinclair/typebox'
import { getTableName } from 'drizzle-orm'
import { test } from 'tap'
import { createDatabase } from '../../drizzle/client/database.ts'
import type { Database } from '../../drizzle/client/index.ts'
import { createAjv } from '../../plugins/validation/formats.ts'
import { normalize } from '../../plugins/validation/normalize.ts'
import { Order } from '../../schemas/orders.ts'
import { Product } from '../../schemas/products.ts'
import { UserProfile } from '../../schemas/user-profiles.ts'
import { User } from '../../schemas/users.ts'
import { resources } from '../../src/app.ts'
import { AlreadySeededError, seedDatabase } from '../../src/cli/demo-data/index.ts'
import { type Client, type Json, testApp } from '../helpers/app.ts'
import { testDatabase } from '../helpers/database.ts'

const UNTIL = Date.UTC(2026, 0, 1)
const USERS = 60
/** Enough where only the equality of data counts. */
const FEW_USERS = 20

const sow = (
  database: Database,
  options: Partial<Parameters<typeof seedDatabase>[1]> = {},
): Promise<Record<string, number>> =>
  seedDatabase(database, {
    users: USERS,
    seed: 42,
    until: UNTIL,
    concurrency: database.kind === 'server' ? 3 : 1,
    definitions: resources,
    ...options,
  })

/** All of a collection, page by page. */
async function all(client: Client, path: string): Promise<Json[]> {
  const found: Json[] = []
  const join = path.includes('?') ? '&' : '?'
  for (let cursor = ''; ; ) {
    const { status, body } = await client.get(`${path}${join}limit=100&cursor=${encodeURIComponent(cursor)}`)
    if (status !== 200) throw new Error(`${path}: ${status}`)
    found.push(...body.data)
    if (!body.pagination.has_more) return found
    cursor = body.pagination.cursor
  }
}

const ajv = createAjv()

/** What of the rows the API would not have let in. */
function unsound(rows: readonly Json[], schema: TSchema): Json[] {
  const fits = ajv.compile(schema)
  return rows.filter((row) => {
    const { value, violations } = normalize(row, schema)
    return !fits(row) || violations.length > 0 || JSON.stringify(value) !== JSON.stringify(row)
  })
}

const timeOf = (id: string) => Number.parseInt(id.replaceAll('-', '').slice(0, 12), 16)

const shareOf = (rows: readonly Json[], member: string, value: string) =>
  rows.filter((row) => row[member] === value).length / rows.length

test('every added row conforms to the API', async (t) => {
  const { admin, adminId, database } = await testApp(t)
  const seeded = await sow(database)
  t.match(seeded, { users: 60, profiles: 42, products: 120, orders: 300 })
  const users = (await all(admin, '/users')).filter(({ id }) => id !== adminId)
  const profiles = await all(admin, '/user-profiles')
  const products = await all(admin, '/products')
  const orders = await all(admin, '/orders?sort=number')
  const people = new Map(users.map((user) => [user.id, user]))
  const productsById = new Map(products.map((product) => [product.id, product]))

  t.strictSame(
    [users, profiles, products, orders].map(({ length }) => length),
    [60, 42, 120, 300],
    'as many as it says',
  )
  for (const [rows, schema] of [
    [users, User],
    [profiles, UserProfile],
    [products, Product],
    [orders, Order],
  ] as const) {
    t.strictSame(unsound(rows, schema), [], `every one of ${schema.title} fits its schema, in normal form`)
    const odd = rows.filter(
      (row) => timeOf(row.id) !== Date.parse(row.created_at) || row.updated_at < row.created_at,
    )
    t.strictSame(odd, [], 'ids are made of the time of creation, and nothing changed before it')
    const isRecent = (row: Json) =>
      Date.parse(row.updated_at) <= UNTIL && timeOf(row.id) > UNTIL - 731 * 86_400_000
    t.ok(rows.every(isRecent))
  }

  await t.test('orders', async (t) => {
    const items = orders.flatMap((order) => order.items.map((item: Json) => ({ order, item })))
    t.equal(items.length, seeded.items)
    t.ok(items.length > 2.5 * orders.length && items.length < 3.5 * orders.length, 'three items on average')
    const strange = items.filter(({ order, item }) => {
      const product = productsById.get(item.product_id)
      return (
        item.sku !== product?.sku ||
        item.name !== product.name ||
        item.unit_amount !== product.price_amount ||
        item.total_amount !== item.quantity * item.unit_amount ||
        order.currency !== product.currency ||
        product.status === 'draft' ||
        product.created_at > order.created_at
      )
    })
    t.strictSame(strange, [], 'items are products of that time, at their price')
    for (const order of orders) {
      const total = order.items.reduce((sum: number, item: Json) => sum + item.total_amount, 0)
      const distinct = new Set(order.items.map((item: Json) => item.product_id))
      const sound = order.total_amount === total && distinct.size === order.items.length
      if (!sound || people.get(order.user_id)?.created_at > order.created_at) t.fail(`order ${order.number}`)
    }
    const links = await database.run(
      `select count(*) from order_products l join orders o on o.id = l.order_id
       where exists (select 1 from jsonb_array_elements(o.items) i where i->>'product_id' = l.product_id::text)`,
    )
    t.strictSame(links, [{ count: items.length }], 'and lead to them')
    const times = orders.map(({ created_at }) => created_at)
    t.strictSame(times, times.toSorted(), 'numbers rise with time')
    t.ok(shareOf(orders, 'status', 'completed') > 0.6)
    const { id: product_id } = products.find(({ status, stock }) => status === 'active' && stock > 0)
    const { body } = await admin.post('/orders', { items: [{ product_id, quantity: 1 }] })
    t.equal(body.data.number, 'ORD-0000000301', 'and the next one goes on')
  })

  await t.test('the rest', async (t) => {
    t.ok(shareOf(users, 'status', 'active') > 0.8)
    t.equal(shareOf(users, 'role', 'admin'), 0)
    t.ok(shareOf(products, 'status', 'active') > 0.75)
    t.ok(new Set(products.map(({ name }) => name)).size > 110, 'names hardly repeat')
    const secrets = await database.run('select 1 from users where password_hash is not null and id <> $1', [
      adminId,
    ])
    t.equal(secrets.length, 0, 'no user has a password')
  })

  await t.test('the search columns match those of the server', async (t) => {
    const named = profiles.find(({ display_name }) => display_name)
    for (const [path, word, id] of [
      ['/users', users[7].email, users[7].id],
      ['/users', users[9].name.toUpperCase().slice(0, 90), users[9].id],
      ['/user-profiles', named.display_name, named.id],
      ['/products', products[3].sku.toLowerCase(), products[3].id],
      ['/orders', orders[5].number, orders[5].id],
    ]) {
      const found = await all(admin, `${path}?search=${encodeURIComponent(word)}`)
      t.ok(
        found.some((row) => row.id === id),
        `${word} in ${path}`,
      )
    }
  })
})

const tables = [...resources.map(({ table }) => getTableName(table)), 'order_products']

/** All rows of all tables, as one text. */
async function contents(database: Database): Promise<string> {
  const rows = await Promise.all(
    tables.map((table) => database.run(`select * from ${table} t order by t::text collate "C"`)),
  )
  return JSON.stringify(rows)
}

test('the same seed creates the same data, another seed other data', async (t) => {
  const [one, two, other] = [await testDatabase(t), await testDatabase(t), await testDatabase(t)]
  const users = FEW_USERS
  await Promise.all([sow(one, { users }), sow(two, { users }), sow(other, { users, seed: 7 })])
  const same = await contents(one)
  t.equal(same === (await contents(two)), true)
  t.equal(same === (await contents(other)), false)

  await t.rejects(sow(one, { users }), AlreadySeededError, 'twice it is refused')
  await t.rejects(sow(one, { users: 3 }), {
    message: /already contains data of seed 42.*another --seed adds more/,
  })
  t.equal(same === (await contents(one)), true, 'and nothing is added')
  await sow(one, { users, seed: 7 })
  t.strictSame(await one.run('select count(*), max(number) as last from orders'), [
    { count: 200, last: 'ORD-0000000200' },
  ])
})

/** Every index and constraint of the database, as it says so itself. */
const definitions = (database: Database) =>
  database.run(`select indexdef as text from pg_indexes where schemaname = current_schema() union all
    select conrelid::regclass || ' ' || conname || ' ' || pg_get_constraintdef(oid) from pg_constraint
    where connamespace = current_schema()::regnamespace order by text`)

/** Returns the database, which calls `watch` with the text of each statement of a transaction. */
const watchStatements = (opened: Database, watch: (text: string) => void) =>
  createDatabase({
    ...opened.$client,
    transaction: (work, limits) =>
      opened.$client.transaction(
        (tx) =>
          work({
            run: async (text, params) => {
              watch(text)
              return tx.run(text, params)
            },
          }),
        limits,
      ),
  })

test('bulk mode creates the same data and keeps every index and foreign key', async (t) => {
  const [usual, bulk] = [await testDatabase(t), await testDatabase(t)]
  const before = await definitions(bulk)
  const statements: string[] = []
  const recorded = watchStatements(bulk, (text) => {
    statements.push(text)
  })
  const users = FEW_USERS
  await sow(usual, { users })
  await sow(recorded, { users, bulk: true })
  t.equal((await contents(bulk)) === (await contents(usual)), true)
  const names = tables.join('|')
  const droppable = new RegExp(
    `^CREATE INDEX .* ON ${bulk.schema}\\.(${names}) |^(${names}) \\S+ FOREIGN KEY`,
  )
  const dropped = before.filter(({ text }) => droppable.test(String(text)))
  t.ok(dropped.length > tables.length, 'each table has some')
  t.equal(statements.filter(isCreation).length, dropped.length, 'all of them are made again')
  t.strictSame(await definitions(bulk), before)

  statements.length = 0
  await sow(recorded, { users, seed: 7, bulk: true })
  t.strictSame(statements.filter(isCreation), [], 'where there is something already, indexes stay')
  t.strictSame(await bulk.run('select count(*) from orders'), [{ count: 200 }])
})

const isCreation = (text: string) => /^(CREATE INDEX|alter table \S+ add constraint)/.test(text)

test('an interrupted bulk run adds and removes nothing', async (t) => {
  for (const last of [
    /^insert into "user_profiles"/,
    /^CREATE INDEX orders_status/,
    /^alter table \S+ add constraint/,
  ]) {
    const opened = await testDatabase(t)
    const before = await definitions(opened)
    const stopped = new Error('stopped')
    const database = watchStatements(opened, (text) => {
      if (last.test(text)) throw stopped
    })
    await t.rejects(sow(database, { users: FEW_USERS, bulk: true }), stopped)
    t.strictSame(await definitions(opened), before)
    t.strictSame(await opened.run('select 1 from users where email like $1', ['%@s42.%']), [])
    await sow(opened, { users: FEW_USERS, bulk: true })
    t.strictSame(await opened.run('select count(*) from orders'), [{ count: 100 }], 'and can be begun again')
  }
})

test('any number of users from one is possible', async (t) => {
  const database = await testDatabase(t)
  const added = await sow(database, { users: 1, seed: 1 })
  t.match(added, { users: 1, profiles: 1, posts: 1, products: 2, orders: 5 })
})
