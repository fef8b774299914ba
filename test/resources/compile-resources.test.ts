/** Compiling resources resolves relations and parents. Mistakes in definitions stop the start, all of them together. */
import { Type } from '@sinclair/typebox'
import { sql } from 'drizzle-orm'
import { foreignKey, index, pgTable, uniqueIndex, uuid } from 'drizzle-orm/pg-core'
import t, { type Test } from 'tap'
import { common, text } from '../../drizzle/columns.ts'
import { orderProducts, orders, products, users } from '../../drizzle/tables.ts'
import { CALLER } from '../../plugins/access/index.ts'
import { compileResources } from '../../plugins/collection/compile.ts'
import type { ResourceDefinition } from '../../plugins/collection/definition.ts'
import { ordersResource } from '../../plugins/resources/orders.ts'
import { productsResource } from '../../plugins/resources/products.ts'
import { usersResource } from '../../plugins/resources/users.ts'
import { resources } from '../../src/app.ts'
import { testApp } from '../helpers/app.ts'
import { notesResource, resourcesWithNotes } from '../helpers/notes.ts'

t.test('relations and parents refer to the compiled resources', async (t) => {
  const compiled = compileResources(resourcesWithNotes, [1, 2])
  const get = (name: string) => compiled.find((resource) => resource.name === name)
  t.same(
    compiled.map(({ name }) => name),
    resourcesWithNotes.map(({ name }) => name),
  )
  t.equal(get('notes')?.parent?.to, get('users'))
  t.equal(get('users')?.relations.orders?.to, get('orders'))
  t.equal(get('orders')?.relations.user?.to, get('users'))
})

t.test('a relation to a resource that is not registered is left out', async (t) => {
  const [compiled] = compileResources([usersResource], [1, 2])
  t.same(compiled?.relations, {})
})

/** Returns the mistakes that stop the start. */
function findMistakes(definitions: readonly ResourceDefinition[]): string[] {
  try {
    compileResources(definitions, [1, 2])
    return []
  } catch (error) {
    return error instanceof Error ? error.message.split('\n') : []
  }
}

/** Checks that a change of the orders, or of another definition, is exactly the mistakes that are named. */
function isMistake(
  t: Test,
  change: Partial<ResourceDefinition>,
  expected: readonly string[],
  definition: ResourceDefinition = ordersResource,
) {
  const changed: ResourceDefinition = { ...definition, ...change }
  const found = findMistakes([...resources.filter((each) => each !== definition), changed])
  t.equal(found.length, expected.length, found.join('\n'))
  for (const [i, mistake] of expected.entries())
    t.ok(found[i]?.startsWith(mistake), `${found[i]} is ${mistake}`)
}

t.test('the message names definition, part and name, and lists the names that exist', async (t) => {
  t.same(findMistakes([{ ...ordersResource, filters: ['statuss'] }]), [
    'orders: filter "statuss" is not a field of the table; there are "id", "number", "user_id", "items", ' +
      '"shipping_address", "note", "status", "currency", "total_amount", "created_at", "updated_at"',
  ])
})

t.test('names that are no field of the table stop the start', async (t) => {
  isMistake(t, { filters: ['status', 'revision'] }, ['orders: filter "revision" is not a field of the table'])
  isMistake(t, { sorts: { numbers: products.name } }, ['orders: sort "numbers" is not a field of the table'])
  isMistake(t, { defaultSort: '-position' }, ['orders: default sort "position" is not one of the sorts'])
  isMistake(t, { unindexed: ['noote'] }, ['orders: unindexed "noote" is not a filter, range or sort'])
  isMistake(t, { search: ['noote'] }, ['orders: search "noote" is not a field of the table'])
  isMistake(t, { immutable: ['owner_id'] }, ['orders: immutable "owner_id" is not a field of the table'])
  isMistake(t, { immutable: ['items'] }, ['orders: immutable "items" is a required field of the schema for'])
  isMistake(t, { kept: ['number'] }, ['orders: kept "number" is not a field of the schema for changes'])
  isMistake(t, { parent: { to: 'users', member: 'owner_id' }, sorts: {} }, [
    'orders: parent "owner_id" is not a field of the table',
  ])
})

/** Makes orders a list of some fields of another table. */
const asListOf = (table: ResourceDefinition['table'], fields: ('number' | 'user_id')[]) => ({
  table,
  schemas: {
    ...ordersResource.schemas,
    read: Type.Pick(ordersResource.schemas.read, ['id', ...fields, 'created_at', 'updated_at'], {
      title: 'Order',
    }),
  },
  ...{ filters: [], ranges: [], sorts: {}, search: [], relations: {}, transitions: {}, immutable: [] },
  access: { list: { admin: true } },
})

t.test('references that cannot be checked stop the start', async (t) => {
  isMistake(t, { uncheckedReferences: ['note'] }, [
    'orders: unchecked reference "note" is not a field with a foreign key; there are "user_id"',
  ])
  const table = pgTable('orders', { ...common(), user_id: uuid().notNull() }, ({ user_id, created_at }) => [
    foreignKey({ columns: [user_id, created_at], foreignColumns: [users.id, users.created_at] }),
  ])
  const change = asListOf(table, ['user_id'])
  isMistake(t, change, ['orders: the foreign key of "user_id", "created_at" has several columns'])
  isMistake(t, { ...change, uncheckedReferences: ['user_id'] }, [])
})

t.test('a search without its column stops the start', async (t) => {
  const table = pgTable('orders', { ...common(), number: text().notNull() })
  isMistake(t, { ...asListOf(table, ['number']), search: ['number'] }, [
    'orders: search needs the column "search" of the table',
  ])
})

t.test('relations by columns that do not exist stop the start', async (t) => {
  const user = { to: users, local: 'user_id', foreign: 'id', many: false }
  isMistake(t, { relations: { user: { ...user, local: 'owner_id' } } }, [
    'orders: relation "user": local "owner_id" is not a column of orders',
  ])
  isMistake(t, { relations: { user: { ...user, foreign: 'order_id' } } }, [
    'orders: relation "user": foreign "order_id" is not a column of users',
  ])
  const through = { table: orderProducts, local: orderProducts.order_id, foreign: products.id }
  isMistake(t, { relations: { goods: { to: products, local: 'id', foreign: 'id', through, many: true } } }, [
    'orders: relation "goods": through "id" is not a column of the join table',
  ])
})

t.test('a relation that compares columns of different types stops the start', async (t) => {
  for (const [local, foreign] of [
    ['number', 'id'],
    ['created_at', 'created_at'],
    ['items', 'name'],
  ] as const) {
    isMistake(t, { relations: { user: { to: users, local, foreign, many: false } } }, [
      'orders: relation "user" cannot compare a column of type',
    ])
  }
})

t.test('conditions that no row can meet stop the start', async (t) => {
  isMistake(t, { access: { list: { admin: true, anonymous: [{ user_id: CALLER }] } } }, [
    'orders: access to list of anonymous cannot name the caller',
  ])
  const part = 'orders: access to list of member'
  // The compiler accepts a variable that has an unknown name in addition to a known one.
  const condition = { user_id: CALLER, state: 'paid' } as const
  isMistake(t, { access: { list: { member: [condition] } } }, [
    `${part} "state" is not a column of the table`,
  ])
  isMistake(t, { access: { list: { member: [{ status: 'payed' }] } } }, [`${part} "status" is never "payed"`])
  const noId = 'cannot be the caller: it is no uuid and no text'
  isMistake(t, { access: { list: { member: [{ total_amount: CALLER }, { status: CALLER }] } } }, [
    `${part} "total_amount" ${noId}`,
    `${part} "status" ${noId}`,
  ])
})

t.test(
  'access that permits nothing to any role stops the start, for one operation it does not',
  async (t) => {
    const mistake = ['orders: access permits no operation to any role']
    isMistake(t, { access: {} }, mistake)
    isMistake(t, { access: { list: { admin: false } } }, mistake)
    isMistake(t, { access: { list: { admin: true } } }, [])
  },
)

t.test('transitions of other fields and to other states stop the start', async (t) => {
  isMistake(t, { transitions: { status: { pending: ['payed'], lost: [] } } }, [
    'orders: transition of "status": "lost" is no state',
    'orders: transition of "status": "payed" is no state',
  ])
  isMistake(t, { transitions: { state: {}, note: {} } }, [
    'orders: transition of "state": it is not an enum field of the table',
    'orders: transition of "note": it is not an enum field of the table',
  ])
})

t.test('two resources of one name, or of one table, stop the start', async (t) => {
  t.same(findMistakes([productsResource, productsResource]), [
    'products, products: several resources have the name "products"',
    'products, products: several resources are stored in the table "products"',
  ])
  t.same(findMistakes([productsResource, { ...productsResource, name: 'goods' }]), [
    'products, goods: several resources are stored in the table "products"',
  ])
})

t.test('a name that is not in kebab-case, or of a reserved path, stops the start', async (t) => {
  for (const name of ['userProfiles', 'user_profiles', 'Goods', 'goods-', '2goods', 'v3', '']) {
    isMistake(t, { name }, [`${name}: the name is not in kebab-case`], productsResource)
  }
  const names = 'docs openapi livez readyz metrics mcp me tokens batches password-resets email-verifications'
  for (const name of names.split(' ')) {
    isMistake(t, { name }, [`${name}: the path /${name} is reserved`], productsResource)
  }
})

t.test('mistakes in schemas stop the start', async (t) => {
  const { schemas } = productsResource
  const change = (changed: Partial<typeof schemas>, expected: string[]) =>
    isMistake(t, { schemas: { ...schemas, ...changed } }, expected, productsResource)
  const price = Type.Integer({ examples: [1] })
  const read = Type.Object({ ...schemas.read.properties, price }, { title: 'Product' })
  change({ read }, ['products: field "price" has neither a column nor a value from `computed`'])
  isMistake(t, { schemas: { ...schemas, read }, computed: () => ({ price: 1 }) }, [], productsResource)
  const { title: _, ...untitled } = schemas.create
  change({ create: untitled }, ['products: the schema "create" has no title'])
  const example = { name: 'Tea', price_amount: '5', colour: 'green' }
  change({ create: { ...schemas.create, examples: [example] } }, [
    'products: the example of the schema "create" is not valid: "sku" is required, "colour" is not a known field, ' +
      '"price_amount" must be integer',
  ])
  change({ change: { ...schemas.change, examples: [{ stock: 1 }, { stock: -1 }] } }, [
    'products: the example of the schema "change" is not valid: "stock" must be',
  ])
  // The schemas of operations that the resource lacks are not checked.
  const unused = Type.Object({})
  const readOnly: Partial<ResourceDefinition> = { verbs: ['list', 'read'], kept: [] }
  const unchecked = { ...schemas, create: unused, change: unused }
  isMistake(t, { ...readOnly, schemas: unchecked }, [], productsResource)
})

t.test('a sort that would lose rows or has no index stops the start', async (t) => {
  const table = pgTable(
    'goods',
    { ...common(), sku: text().notNull(), name: text().notNull(), note: text() },
    (t) => [
      uniqueIndex().on(t.sku),
      index().on(t.name),
      index().on(sql`(coalesce(${t.note}, ''))`, t.id),
      index().on(t.created_at, t.id).where(sql`${t.name} <> ''`),
    ],
  )
  const fields = Object.fromEntries(['sku', 'name', 'note'].map((name) => [name, Type.String()]))
  const read = Type.Object({ ...fields, created_at: Type.String() }, { title: 'Goods' })
  const goods: ResourceDefinition = {
    ...productsResource,
    name: 'goods',
    table,
    verbs: ['list'],
    schemas: { read, create: read, change: read },
    ...{ filters: [], ranges: [], search: [], kept: [] },
    access: { list: { admin: true } },
  }
  const find = (sorts: ResourceDefinition['sorts'], change: Partial<ResourceDefinition> = {}) =>
    findMistakes([{ ...goods, ...change, sorts }])
  const note = {
    column: table.note,
    ascending: sql`coalesce(${table.note}, 'z')`,
    descending: sql`coalesce(${table.note}, '')`,
    nulls: { ascending: 'z', descending: '' },
  }
  const advice = 'add one, or name the sort in `unindexed`'
  t.same(find({ sku: table.sku, note: { ...note, ascending: note.descending } }), [])
  t.same(find({ name: table.name }), [`goods: sort "name" has no index on (name, id); ${advice}`])
  t.same(find({ name: table.name }, { unindexed: ['name'] }), [])
  t.same(find({ created_at: table.created_at }), [
    `goods: sort "created_at" has no index on (created_at, id); ${advice}`,
  ])
  t.same(find({ note }), [
    `goods: sort "note" has no index on (coalesce("goods"."note", 'z'), id); ${advice}`,
  ])
  t.same(find({ note: table.note }), [
    'goods: sort "note" is by a nullable column; it needs an expression without NULL for each direction',
  ])
  t.same(find({ name: products.name }), ['goods: sort "name" is not by the column "name" of the table'])
  // Under a parent, the index begins with the parent's column.
  const nested = { parent: { to: 'users', member: 'user_id' }, filters: [], ranges: [] }
  isMistake(t, { ...nested, sorts: { created_at: orders.created_at } }, [])
  isMistake(t, { ...nested, sorts: { number: orders.number } }, [
    'orders: sort "number" has no index on (user_id, number, id)',
  ])
})

t.test('a parent that is not registered stops the start of the service', async (t) => {
  await t.rejects(testApp(t, {}, { resources: [{ ...notesResource, relations: {} }] }), {
    message: 'notes: its parent "users" is not registered',
  })
})

t.test('all mistakes of all definitions are reported together', async (t) => {
  const found = findMistakes([
    { ...ordersResource, filters: ['statuss'], kept: ['state'] },
    { ...productsResource, search: ['title'] },
    notesResource,
  ])
  t.equal(found.length, 4)
  t.match(found, [
    /^orders: filter "statuss"/,
    /^orders: kept "state"/,
    /^products: search "title"/,
    /^notes: /,
  ])
})

t.test('a filter or a range without an index stops the start, unless the definition says so', async (t) => {
  const find = (changes: Partial<ResourceDefinition>) => findMistakes([{ ...productsResource, ...changes }])
  const advice = 'add one, or name it in `unindexed` with a comment that says why'
  t.same(find({ filters: ['name', 'stock'] }), [
    `products: filter "stock" has no index that begins with (stock); ${advice}`,
  ])
  t.same(find({ ranges: ['stock'] }), [
    `products: range "stock" has no index that begins with (stock); ${advice}`,
  ])
  t.same(find({ ranges: ['stock'], unindexed: ['stock'] }), [])
  t.match(find({ unindexed: ['stock'] }), [/^products: unindexed "stock" is not a filter, range or sort; /])
  t.match(find({ filters: ['created_at'] }), [/^products: filter "created_at" must be .* a time belongs in /])
  t.match(find({ filters: ['colour'] }), [/^products: filter "colour" is not a field of the table; /])
  t.match(find({ ranges: ['name'] }), [/^products: range "name" must be a number, an integer, a date or/])
  // Its index begins with the user.
  t.match(findMistakes([...resources, { ...notesResource, filters: ['title_of'] }]), [
    /^notes: filter "title_of" is/,
  ])
  t.match(findMistakes([...resources, { ...notesResource, filters: ['body'] }]), [
    /^notes: filter "body" has no index that begins with \(user_id, body\)/,
  ])
})
