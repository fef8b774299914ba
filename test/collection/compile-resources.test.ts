/** Compiling resources resolves relations and parents. Mistakes in definitions stop the start, all of them together. */
import { Type } from '@sinclair/typebox'
import { sql } from 'drizzle-orm'
import { foreignKey, index, pgTable, uniqueIndex, uuid } from 'drizzle-orm/pg-core'
import t from 'tap'
import { common, text } from '../../drizzle/columns.ts'
import { users } from '../../drizzle/user-tables.ts'
import { CALLER } from '../../plugins/access/rules.ts'
import { compileResources } from '../../plugins/collection/compile.ts'
import type { ResourceDefinition } from '../../plugins/collection/definition.ts'
import { usersResource } from '../../plugins/resources/users.ts'
import { orderProducts, orders } from '../fixtures/tables/orders.ts'
import { products } from '../fixtures/tables/products.ts'
import { testApp } from '../helpers/app.ts'
import { notesResource, resourcesWithNotes } from '../helpers/notes.ts'
import {
  type Cases,
  type Definition,
  findMistakes,
  ordersResource,
  productsResource,
  testMistakes,
  user,
} from './mistakes.ts'

t.test('relations and parents refer to the compiled resources; others are left out', async (t) => {
  const compiled = compileResources(resourcesWithNotes, [1, 2])
  const get = (name: string) => compiled.find((resource) => resource.name === name)
  t.equal(get('notes')?.parent?.to, get('users'))
  t.equal(get('users')?.relations.orders?.to, get('orders'))
  t.equal(get('orders')?.relations.user?.to, get('users'))
  t.same(compileResources([usersResource], [1, 2])[0]?.relations, {})
})

t.test('a definition adds a relation to the resource that it refers to', (t) => {
  const compile = (inverse: string, changes = {}) =>
    compileResources(
      [usersResource, { ...ordersResource, relations: { user: { ...user, inverse, ...changes } } }],
      [1, 2],
    )
  const [compiledUsers, compiledOrders] = compile('purchases')
  t.match(compiledUsers?.relations, { purchases: { to: compiledOrders, foreign: 'user_id', many: true } })
  t.throws(() => compile('profile'), {
    message: 'orders: the inverse "profile" of relation "user" is a relation already',
  })
  t.throws(() => compile('purchases', { many: true }), { message: /requires a relation to one row/ })
  t.end()
})

t.test('the message names definition, part and name, and lists the names that exist', async (t) => {
  t.same(findMistakes([{ ...ordersResource, filters: ['statuss'] }]), [
    'orders: filter "statuss" is not a field of the table; there are "id", "number", "user_id", "items", ' +
      '"shipping_address", "note", "status", "currency", "total_amount", "created_at", "updated_at"',
  ])
})

testMistakes('names that are no field of the table stop the start', [
  [{ filters: ['status', 'revision'] }, 'filter "revision" is not a field of the table'],
  [{ sorts: { numbers: products.name } }, 'sort "numbers" is not a field of the table'],
  [{ defaultSort: '-position' }, 'default sort "position" is not one of the sorts'],
  [{ unindexed: ['noote'] }, 'unindexed "noote" is not a filter, range or sort'],
  [{ search: ['noote'] }, 'search "noote" is not a field of the table'],
  [{ immutable: ['owner_id'] }, 'immutable "owner_id" is not a field of the table'],
  [{ immutable: ['items'] }, 'immutable "items" is a required field of the schema for'],
  [{ kept: ['number'] }, 'kept "number" is not a field of the schema for changes'],
  [
    { parent: { to: 'users', member: 'owner_id' }, sorts: {} },
    'parent "owner_id" is not a field of the table',
  ],
])

/** Makes orders a list of some fields of another table. */
const asListOf = (table: ResourceDefinition['table'], fields: ('number' | 'user_id')[]): Definition => {
  const names = ['id', ...fields, 'created_at', 'updated_at'] as const
  const read = Type.Pick(ordersResource.schemas.read, names, { title: 'Order' })
  return {
    table,
    schemas: { ...ordersResource.schemas, read },
    ...{ filters: [], ranges: [], sorts: {}, search: [], relations: {}, transitions: {}, immutable: [] },
    access: { list: { admin: true } },
  }
}
const twoColumns = asListOf(
  pgTable('orders', { ...common(), user_id: uuid().notNull() }, ({ user_id, created_at }) => [
    foreignKey({ columns: [user_id, created_at], foreignColumns: [users.id, users.created_at] }),
  ]),
  ['user_id'],
)
const numbers = pgTable('orders', { ...common(), number: text().notNull() })

testMistakes('references that cannot be checked, and a search without its column, stop the start', [
  [
    { uncheckedReferences: ['note'] },
    'unchecked reference "note" is not a field with a foreign key; there are "user_id"',
  ],
  [twoColumns, 'the foreign key of "user_id", "created_at" has several columns'],
  [{ ...twoColumns, uncheckedReferences: ['user_id'] }],
  [{ ...asListOf(numbers, ['number']), search: ['number'] }, 'search needs the column "search" of the table'],
])

const relate = (local: string, foreign: string): Definition => ({
  relations: { user: { ...user, local, foreign } },
})
const through = { table: orderProducts, local: orderProducts.order_id, foreign: products.id }
const goods = { to: products, local: 'id', foreign: 'id', through, many: true }

testMistakes('relations by columns that do not exist, or of different types, stop the start', [
  [relate('owner_id', 'id'), 'relation "user": local "owner_id" is not a column of orders'],
  [relate('user_id', 'order_id'), 'relation "user": foreign "order_id" is not a column of users'],
  [{ relations: { goods } }, 'relation "goods": through "id" is not a column of the join table'],
  [relate('number', 'id'), 'relation "user" cannot compare a column of type'],
  [relate('created_at', 'created_at'), 'relation "user" cannot compare a column of type'],
  [relate('items', 'name'), 'relation "user" cannot compare a column of type'],
])

const allowMembers = (...list: Record<string, string | typeof CALLER>[]): Definition => ({
  access: { list: { member: list } },
})
const NO_OPERATION = 'access permits no operation to any role'

const refunds = {
  ...{ operationId: 'refundOrder', summary: 'Refund an order', description: 'Refunds an order.' },
  run: async (_store: unknown, order: Readonly<Record<string, unknown>>) => order,
}

testMistakes('conditions that no row can meet, and access for no role, stop the start', [
  [
    { access: { list: { admin: true, anonymous: [{ user_id: CALLER }] } } },
    'access to list of anonymous cannot name the caller',
  ],
  [
    { operations: { refunds: { ...refunds, access: { anonymous: [{ user_id: CALLER }] } } } },
    'access to refunds of anonymous cannot name the caller',
  ],
  [
    { operations: { refunds: { ...refunds, access: { member: [{ state: 'paid' }] } } } },
    'access to refunds of member "state" is not a column of the table',
  ],
  [
    allowMembers({ user_id: CALLER, state: 'paid' }),
    'access to list of member "state" is not a column of the table',
  ],
  [allowMembers({ status: 'payed' }), 'access to list of member "status" is never "payed"'],
  [
    allowMembers({ total_amount: CALLER }, { status: CALLER }),
    'access to list of member "total_amount" cannot be the caller: it is no uuid and no text',
    'access to list of member "status" cannot be the caller: it is no uuid and no text',
  ],
  [{ access: {} }, NO_OPERATION],
  [{ access: { list: { admin: false } } }, NO_OPERATION],
  [{ access: { list: { admin: true } } }],
])

testMistakes('transitions of other fields and to other states stop the start', [
  [
    { transitions: { status: { pending: ['payed'], lost: [] } } },
    'transition of "status": "lost" is no state',
    'transition of "status": "payed" is no state',
  ],
  [
    { transitions: { state: {}, note: {} } },
    'transition of "state": it is not an enum field of the table',
    'transition of "note": it is not an enum field of the table',
  ],
])

const MALFORMED = ['userProfiles', 'user_profiles', 'Goods', 'goods-', '2goods', 'v3', '']
const RESERVED = [
  ...['docs', 'openapi', 'livez', 'readyz', 'metrics', 'mcp', 'me', 'tokens', 'batches'],
  ...['password-resets', 'email-verifications'],
]

testMistakes(
  'a name that is not in kebab-case, or of a reserved path, stops the start',
  [
    ...MALFORMED.map((name): Cases[number] => [{ name }, 'the name is not in kebab-case']),
    ...RESERVED.map((name): Cases[number] => [{ name }, `the path /${name} is reserved`]),
  ],
  productsResource,
)

t.test('two resources of one name, or of one table, stop the start', async (t) => {
  t.same(findMistakes([productsResource, productsResource]), [
    'products, products: several resources have the name "products"',
    'products, products: several resources are stored in the table "products"',
  ])
  t.same(findMistakes([productsResource, { ...productsResource, name: 'goods' }]), [
    'products, goods: several resources are stored in the table "products"',
  ])
})

const { schemas } = productsResource
const change = (changed: Partial<typeof schemas>): Definition => ({ schemas: { ...schemas, ...changed } })
const price = Type.Integer({ examples: [1] })
const read = Type.Object({ ...schemas.read.properties, price }, { title: 'Product' })
const { title: _, ...untitled } = schemas.create
const unused = Type.Object({})

testMistakes(
  'mistakes in schemas stop the start',
  [
    [change({ read }), 'field "price" has neither a column nor a value from `computed`'],
    [{ ...change({ read }), computed: () => ({ price: 1 }) }],
    [change({ create: untitled }), 'the schema "create" has no title'],
    // The schemas of operations that the resource lacks are not checked.
    [{ ...change({ create: unused, change: unused }), verbs: ['list', 'read'], kept: [] }],
  ],
  productsResource,
)

t.test('examples that their schema refuses stop a start outside production', async (t) => {
  const create = { ...schemas.create, examples: [{ name: 'Tea', price_amount: '5', colour: 'green' }] }
  const changed = { ...schemas.change, examples: [{ stock: 1 }, { stock: -1 }] }
  const wrong = { ...productsResource, ...change({ create, change: changed }) }
  const start = (settings: Record<string, string> = {}) => testApp(t, settings, { resources: [wrong] })
  await t.rejects(start(), {
    message:
      'products: the example of the schema "create" is not valid: "sku" is required, "colour" is not a known field, ' +
      '"price_amount" must be integer\nproducts: the example of the schema "change" is not valid: "stock" must be >= 0',
  })
  await t.resolves(start({ NODE_ENV: 'production', INSECURE_HTTP: 'true', SHUTDOWN_DELAY: '0' }))
})

testMistakes(
  'a filter or a range without an index stops the start, unless the definition says so',
  [
    [
      { filters: ['name', 'stock'] },
      'filter "stock" has no index that begins with (stock); add one, or name it in `unindexed` with a comment that says why',
    ],
    [{ ranges: ['stock'] }, 'range "stock" has no index that begins with (stock); add one, or name it in'],
    [{ ranges: ['stock'], unindexed: ['stock'] }],
    [{ unindexed: ['stock'] }, 'unindexed "stock" is not a filter, range or sort; '],
    [{ filters: ['created_at'] }, /^filter "created_at" must be .* a time belongs in /],
    [{ filters: ['colour'] }, 'filter "colour" is not a field of the table; '],
    [{ ranges: ['name'] }, 'range "name" must be a number, an integer, a decimal, a date, a date-time or'],
  ],
  productsResource,
)

testMistakes(
  'a negation, a null check or a prefix that cannot be compared or has no index stops the start',
  [
    [{ negations: ['status'], prefixes: ['sku', 'name'] }],
    [
      { negations: ['colour'] },
      'negation "colour" is not a field',
      'negation "colour" is not one of the filters',
    ],
    [{ negations: ['price_amount'] }, 'negation "price_amount" is not one of the filters'],
    [
      { negations: ['currency'] },
      'negation "currency" has no index, since it is no enum and no boolean; name "currency_not" in `unindexed`',
    ],
    [{ negations: ['currency'], unindexed: ['currency_not'] }],
    [{ nullChecks: ['sku'] }, 'null check "sku" must be of a field that can be null'],
    [
      { nullChecks: ['description'] },
      'null check "description" has no index that begins with (description); add one, or name "description_null" in `unindexed`',
    ],
    [{ nullChecks: ['description'], unindexed: ['description_null'] }],
    [{ prefixes: ['currency'] }, 'prefix "currency" must be a text of one line that is searched'],
    [{ prefixes: ['description'] }, 'prefix "description" must be a text of one line that is searched'],
    [
      { search: ['description', 'name'], prefixes: ['name'] },
      'prefix "name" must stand in `search` before texts that are null or have several lines',
    ],
    [
      { search: ['name', 'currency', 'sku'], prefixes: ['sku'] },
      'prefix "sku" has no index that begins with (left(split_part("products"."search", chr(10), 3), 300)); add one with `foldedLine`',
    ],
    [{ search: ['name', 'currency', 'sku'], prefixes: ['sku'], unindexed: ['sku_prefix'] }],
    [{ unindexed: ['name_prefix'] }, 'unindexed "name_prefix" is not a filter, range or sort'],
  ],
  productsResource,
)

const filterUser = (filters: string[], changes = {}): Definition => ({
  relations: { user: { ...user, filters, ...changes } },
})
testMistakes(
  'a filter of a relation that the related resource lacks, or that has no index, stops the start',
  [
    [filterUser(['status', 'email'])],
    [
      filterUser(['name', 'password_hash']),
      'filters of relation "user": "name" is not a filter of users; there are "status", "role", "email"',
      'filters of relation "user": "password_hash" is not a filter of users',
    ],
    [filterUser(['status'], { many: true }), 'filters of relation "user" require a relation to one row'],
    [
      filterUser(['status'], { local: 'note', foreign: 'name' }),
      'filters of relation "user" have no index that begins with (note); add one, or name "user.status" in',
    ],
    [{ ...filterUser(['status'], { local: 'note', foreign: 'name' }), unindexed: ['user.status'] }],
  ],
)

t.test('two parameters of one name stop the start', async (t) => {
  const columns = { ...common(), page: text().notNull(), a: text(), a_null: text().notNull() }
  const table = pgTable('goods', columns, (t) => [index().on(t.page), index().on(t.a), index().on(t.a_null)])
  const names = ['page', 'a_null']
  const read = Type.Object(
    {
      ...Object.fromEntries(names.map((name) => [name, Type.String()])),
      a: Type.Unsafe<string | null>({ type: ['string', 'null'] }),
    },
    { title: 'Goods' },
  )
  const goods = {
    ...productsResource,
    ...{ name: 'goods', table, verbs: ['list' as const], access: { list: { admin: true } } },
    schemas: { read, create: read, change: read },
    ...{ filters: names, ranges: [], sorts: {}, search: [], nullChecks: ['a'] },
  }
  t.same(
    findMistakes([goods]),
    names.map(
      (name) => `goods: "${name}" cannot be the name of a filter: lists have a parameter with that name`,
    ),
  )
})

// Under a parent, an index begins with the parent's column.
const underUsers = { parent: { to: 'users', member: 'user_id' }, filters: [], ranges: [] }
testMistakes('an index of a resource with a parent begins with the parent', [
  [{ ...underUsers, sorts: { created_at: orders.created_at } }],
  [
    { ...underUsers, sorts: { number: orders.number } },
    'sort "number" has no index on (user_id, number, id)',
  ],
  [
    { ...underUsers, sorts: {}, filters: ['number'] },
    'filter "number" has no index that begins with (user_id, number)',
  ],
])

t.test('a sort that would lose rows or has no index stops the start', async (t) => {
  const columns = { ...common(), sku: text().notNull(), name: text().notNull(), note: text() }
  const table = pgTable('goods', columns, (t) => [
    uniqueIndex().on(t.sku),
    index().on(t.name),
    index().on(sql`(coalesce(${t.note}, ''))`, t.id),
    index().on(t.created_at, t.id).where(sql`${t.name} <> ''`),
  ])
  const fields = Object.fromEntries(['sku', 'name', 'note'].map((name) => [name, Type.String()]))
  const goodsSchema = Type.Object({ ...fields, created_at: Type.String() }, { title: 'Goods' })
  const find = (sorts: ResourceDefinition['sorts'], unindexed: string[] = []) =>
    findMistakes([
      {
        ...productsResource,
        ...{ name: 'goods', table, verbs: ['list'], access: { list: { admin: true } } },
        schemas: { read: goodsSchema, create: goodsSchema, change: goodsSchema },
        ...{ filters: [], ranges: [], search: [], kept: [], sorts, unindexed },
      },
    ])
  const note = {
    column: table.note,
    ascending: sql`coalesce(${table.note}, 'z')`,
    descending: sql`coalesce(${table.note}, '')`,
    nulls: { ascending: 'z', descending: '' },
  }
  t.same(find({ sku: table.sku, note: { ...note, ascending: note.descending } }), [])
  t.same(find({ name: table.name }, ['name']), [])
  for (const [sorts, mistake] of [
    [{ name: table.name }, 'has no index on (name, id); add one, or name the sort in `unindexed`'],
    [
      { created_at: table.created_at },
      'has no index on (created_at, id); add one, or name the sort in `unindexed`',
    ],
    [
      { note },
      `has no index on (coalesce("goods"."note", 'z'), id); add one, or name the sort in \`unindexed\``,
    ],
    [{ note: table.note }, 'is by a nullable column; it needs an expression without NULL for each direction'],
    [{ name: products.name }, 'is not by the column "name" of the table'],
  ] as const) {
    t.same(find(sorts), [`goods: sort "${Object.keys(sorts)[0]}" ${mistake}`])
  }
})

t.test('all mistakes of all definitions are reported together, and stop the service', async (t) => {
  const found = findMistakes([
    { ...ordersResource, filters: ['statuss'], kept: ['state'] },
    { ...productsResource, search: ['title'] },
    notesResource,
  ])
  t.match(found, [
    /^orders: filter "statuss"/,
    /^orders: kept "state"/,
    /^products: search "title"/,
    /^notes: /,
  ])
  await t.rejects(testApp(t, {}, { resources: [{ ...notesResource, relations: {} }] }), {
    message: 'notes: its parent "users" is not registered',
  })
})
