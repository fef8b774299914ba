/** Compiling resources resolves relations and parents. Mistakes in definitions stop the start, all of them together. */
import { type TProperties, Type } from '@sinclair/typebox'
import { sql } from 'drizzle-orm'
import { check, foreignKey, index, pgTable, uniqueIndex, uuid } from 'drizzle-orm/pg-core'
import t from 'tap'
import { common, integer, text } from '../../drizzle/columns.ts'
import { users } from '../../drizzle/user-tables.ts'
import { type Access, CALLER, type Condition, NOT_NULL, type RoleRules } from '../../plugins/access/rules.ts'
import { compileResources } from '../../plugins/collection/compile.ts'
import type { ResourceDefinition } from '../../plugins/collection/definition.ts'
import type { VersionFields } from '../../plugins/collection/fields.ts'
import { buildAccessTable } from '../../plugins/openapi/access-tables.ts'
import { usersResource } from '../../plugins/resources/users.ts'
import { resources } from '../../src/app.ts'
import { ordersResource as fixtureOrders } from '../fixtures/resources/orders.ts'
import { productsResource as fixtureProducts } from '../fixtures/resources/products.ts'
import { orderProducts, orders } from '../fixtures/tables/orders.ts'
import { products } from '../fixtures/tables/products.ts'
import { testApp } from '../helpers/app.ts'
import { notesResource, resourcesWithNotes } from '../helpers/notes.ts'
import { memberships, organizationResources } from '../helpers/organizations.ts'
import { define } from './adopted.ts'
import { admins, parts, partsResource, repairsResource, staff, writable } from './restricted-parts.ts'

type Definition = Partial<ResourceDefinition>

/** Without what depends on the filters and the search that the changes of the tests replace. */
const conditions = { negations: [], nullChecks: [], prefixes: [], unindexed: [] } satisfies Definition
const user = { to: users, local: 'user_id', foreign: 'id', many: false }
const ordersResource: ResourceDefinition = { ...fixtureOrders, ...conditions, relations: { user } }
const productsResource: ResourceDefinition = { ...fixtureProducts, ...conditions }

/** Returns the mistakes that stop the start. */
function findMistakes(definitions: readonly ResourceDefinition[], versions = [1, 2]): string[] {
  try {
    compileResources(definitions, versions)
    return []
  } catch (error) {
    if (!(error instanceof Error)) throw error
    return error.message.split('\n')
  }
}

type Cases = readonly (readonly [change: Definition, ...mistakes: (string | RegExp)[]])[]

/**
 * Tests that each change of a definition leads to the mistakes that begin as named, after its name, and to no others.
 */
const testMistakes = (title: string, definition: ResourceDefinition, cases: Cases) =>
  t.test(title, async (t) => {
    for (const [change, ...mistakes] of cases) {
      const changed: ResourceDefinition = { ...definition, ...change }
      const found = findMistakes([...resources.filter(({ name }) => name !== definition.name), changed])
      t.equal(found.length, mistakes.length, found.join('\n'))
      for (const [i, mistake] of mistakes.entries()) {
        const message = found[i]?.replace(/^.*?: (the fields of version 2: )?/, '') ?? ''
        const isFound = typeof mistake === 'string' ? message.startsWith(mistake) : mistake.test(message)
        t.ok(isFound, `${message} is ${mistake}`)
      }
    }
  })

t.test('relations and parents refer to the compiled resources; others are left out', async (t) => {
  const compiled = compileResources(resourcesWithNotes, [1, 2])
  const get = (name: string) => compiled.find((resource) => resource.name === name)
  t.equal(get('notes')?.parent?.to, get('users'))
  t.equal(get('users')?.relations.notes?.to, get('notes'))
  t.equal(get('orders')?.relations.user?.to, get('users'))
  t.same(compileResources([usersResource], [1, 2])[0]?.relations, {})
})

t.test('a definition adds a relation to the resource that it refers to', async (t) => {
  const relate = (inverse: string, changes = {}) => [
    usersResource,
    { ...ordersResource, relations: { user: { ...user, inverse, ...changes } } },
  ]
  const [compiledUsers, compiledOrders] = compileResources(relate('purchases'), [1, 2])
  t.match(compiledUsers?.relations, { purchases: { to: compiledOrders, foreign: 'user_id', many: true } })
  t.same(findMistakes(relate('profile')), [
    'orders: the inverse "profile" of relation "user" is a relation already',
  ])
  t.match(findMistakes(relate('purchases', { many: true })), [/requires a relation to one row/])
})

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
const relate = (local: string, foreign: string, changes = {}): Definition => ({
  relations: { user: { ...user, local, foreign, ...changes } },
})
const filterUser = (filters: string[], changes = {}) => relate('user_id', 'id', { filters, ...changes })
const through = { table: orderProducts, local: orderProducts.order_id, foreign: products.id }
const goods = { to: products, local: 'id', foreign: 'id', through, many: true }
const byNote = { local: 'note', foreign: 'name' }

testMistakes('names that lead to no field, column or index stop the start', ordersResource, [
  [
    { filters: ['statuss'] },
    'filter "statuss" is not a field of the table; there are "id", "number", "user_id", "items", ' +
      '"shipping_address", "note", "status", "currency", "total_amount", "created_at", "updated_at"',
  ],
  [{ filters: ['status', 'revision'] }, 'filter "revision" is not a field of the table'],
  [{ sorts: { numbers: products.name } }, 'sort "numbers" is not a field of the table'],
  [{ defaultSort: '-position' }, 'default sort "position" is not one of the sorts'],
  [{ unindexed: ['noote'] }, 'unindexed "noote" is not a filter, range or sort'],
  [{ search: ['noote'] }, 'search "noote" is not a field of the table'],
  [{ immutable: ['owner_id'] }, 'immutable "owner_id" is not a field of the table'],
  [{ immutable: ['items'] }, 'immutable "items" is a required field of the schema for'],
  [{ kept: ['number'] }, 'kept "number" is not a field of the schema for changes'],
  [{ parent: { to: 'users', member: 'owner_id' }, sorts: {} }, 'parent "owner_id" is not a field'],
  // References that cannot be checked, and a search without its column.
  [
    { uncheckedReferences: ['note'] },
    /^unchecked reference "note" is not a .*foreign key; there are "user_id"/,
  ],
  [twoColumns, 'the foreign key of "user_id", "created_at" has several columns'],
  [{ ...twoColumns, uncheckedReferences: ['user_id'] }],
  [{ ...asListOf(numbers, ['number']), search: ['number'] }, 'search needs the column "search" of the table'],
  // Relations by columns that do not exist, or of different types, and their filters.
  [relate('owner_id', 'id'), 'relation "user": local "owner_id" is not a column of orders'],
  [relate('user_id', 'order_id'), 'relation "user": foreign "order_id" is not a column of users'],
  [{ relations: { goods } }, 'relation "goods": through "id" is not a column of the join table'],
  [relate('number', 'id'), 'relation "user" cannot compare a column of type'],
  [relate('created_at', 'created_at'), 'relation "user" cannot compare a column of type'],
  [filterUser(['status', 'email'])],
  [
    filterUser(['name', 'password_hash']),
    'filters of relation "user": "name" is not a filter of users; there are "status", "role", "email"',
    'filters of relation "user": "password_hash" is not a filter of users',
  ],
  [filterUser(['status'], { many: true }), 'filters of relation "user" require a relation to one row'],
  [
    filterUser(['status'], byNote),
    'filters of relation "user" have no index that begins with (note); add one, or name "user.status" in',
  ],
  [{ ...filterUser(['status'], byNote), unindexed: ['user.status'] }],
])

const allowMembers = (...list: Record<string, string | typeof CALLER>[]): Definition => ({
  access: { list: { member: list } },
})
const refund = (access: RoleRules): Definition => ({
  operations: {
    refunds: {
      ...{ operationId: 'refundOrder', summary: 'Refund an order', description: 'Refunds an order.' },
      access,
      run: async (_store, order) => order,
    },
  },
})
const ofCaller = [{ user_id: CALLER }] as const
const IN_LIST = 'access to list of member'

testMistakes('conditions that no row can meet, and impossible states, stop the start', ordersResource, [
  [{ access: { list: { admin: true, anonymous: ofCaller } } }, 'access to list of anonymous cannot name the'],
  [refund({ anonymous: ofCaller }), 'access to refunds of anonymous cannot name the caller'],
  [
    refund({ member: [{ state: 'paid' }] }),
    'access to refunds of member "state" is not a column of the table',
  ],
  [allowMembers({ user_id: CALLER, state: 'paid' }), `${IN_LIST} "state" is not a column of the table`],
  [allowMembers({ status: 'payed' }), `${IN_LIST} "status" is never "payed"`],
  [
    allowMembers({ total_amount: CALLER }, { status: CALLER }),
    `${IN_LIST} "total_amount" cannot be the caller: it is no uuid and no text`,
    `${IN_LIST} "status" cannot be the caller: it is no uuid and no text`,
  ],
  [{ access: {} }, 'access permits no operation to any role'],
  [{ access: { list: { admin: false } } }, 'access permits no operation to any role'],
  [{ access: { list: { admin: true } } }],
  [
    { transitions: { status: { pending: ['payed'], lost: [] }, note: {} } },
    'transition of "status": "lost" is no state',
    'transition of "status": "payed" is no state',
    'transition of "note": it is not an enum field of the table',
  ],
  [
    { constraints: { orders_order: { code: 'OUT_OF_RANGE', fields: ['end'], message: 'is early' } } },
    /^constraint "orders_order": "end" is not a field/,
  ],
])

const MALFORMED = ['userProfiles', 'user_profiles', 'goods-', '2goods', 'v3', '']
const RESERVED = ['docs', 'openapi', 'livez', 'readyz', 'metrics', 'mcp', 'me', 'tokens', 'batches']
const RESERVED_LINKS = ['password-resets', 'email-verifications']
const { schemas } = productsResource
const change = (changed: Partial<typeof schemas>): Definition => ({ schemas: { ...schemas, ...changed } })
const price = Type.Integer({ examples: [1] })
const read = Type.Object({ ...schemas.read.properties, price }, { title: 'Product' })
const { title: _, ...untitled } = schemas.create
const unused = Type.Object({})

testMistakes('wrong names, schemas, filters and ranges stop the start', productsResource, [
  ...MALFORMED.map((name) => [{ name }, 'the name is not in kebab-case'] as const),
  ...[...RESERVED, ...RESERVED_LINKS].map((name) => [{ name }, `the path /${name} is reserved`] as const),
  [change({ read }), 'field "price" has neither a column nor a value from `computed`'],
  [{ ...change({ read }), computed: () => ({ price: 1 }) }],
  [change({ create: untitled }), 'the schema "create" has no title'],
  // The schemas of operations that the resource lacks are not checked.
  [{ ...change({ create: unused, change: unused }), verbs: ['list', 'read'], kept: [] }],
  [
    { filters: ['name', 'stock'] },
    'filter "stock" has no index that begins with (stock); add one, or name it in `unindexed` with a comment that says why',
  ],
  [{ ranges: ['stock'] }, 'range "stock" has no index that begins with (stock); add one, or name it in'],
  [{ ranges: ['stock'], unindexed: ['stock'] }],
  [{ unindexed: ['stock'] }, 'unindexed "stock" is not a filter, range or sort; '],
  [{ filters: ['created_at'] }, /^filter "created_at" must be .* a time belongs in /],
  [{ ranges: ['name'] }, 'range "name" must be a number, an integer, a decimal, a date, a date-time or'],
  // Negations, null checks and prefixes.
  [{ negations: ['status'], prefixes: ['sku', 'name'] }],
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
])

t.test('two resources of one name, or of one table, stop the start', async (t) => {
  t.same(findMistakes([productsResource, productsResource]), [
    'products, products: several resources have the name "products"',
    'products, products: several resources are stored in the table "products"',
  ])
})

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

// Under a parent, an index begins with the parent's column.
const underUsers = { parent: { to: 'users', member: 'user_id' }, filters: [], ranges: [] }
testMistakes('an index of a resource with a parent begins with the parent', ordersResource, [
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

/** A list of another table instead of products. */
const asGoods = (table: ResourceDefinition['table'], fields: TProperties): Definition => {
  const schema = Type.Object(fields, { title: 'Goods' })
  return {
    ...{ name: 'goods', table, verbs: ['list'], access: { list: { admin: true } } },
    schemas: { read: schema, create: schema, change: schema },
    ...{ filters: [], ranges: [], sorts: {}, search: [], kept: [] },
  }
}
const sorted = pgTable(
  'goods',
  { ...common(), sku: text().notNull(), name: text().notNull(), note: text() },
  (t) => [
    uniqueIndex().on(t.sku),
    index().on(t.name),
    index().on(sql`(coalesce(${t.note}, ''))`, t.id),
    index().on(t.created_at, t.id).where(sql`${t.name} <> ''`),
  ],
)
const named = pgTable(
  'goods',
  { ...common(), page: text().notNull(), a: text(), a_null: text().notNull() },
  (t) => [index().on(t.page), index().on(t.a), index().on(t.a_null)],
)
const AnyText = Type.String()
const ofSorted = { sku: AnyText, name: AnyText, note: AnyText, created_at: AnyText }
const sortBy = (sorts: ResourceDefinition['sorts']) => ({ ...asGoods(sorted, ofSorted), sorts })
const note = {
  column: sorted.note,
  ascending: sql`coalesce(${sorted.note}, 'z')`,
  descending: sql`coalesce(${sorted.note}, '')`,
  nulls: { ascending: 'z', descending: '' },
}
const NAMED_IN = 'add one, or name the sort in `unindexed`'

testMistakes(
  'sorts that lose rows or have no index, and ambiguous parameters, stop the start',
  productsResource,
  [
    [sortBy({ sku: sorted.sku, note: { ...note, ascending: note.descending } })],
    [{ ...sortBy({ name: sorted.name }), unindexed: ['name'] }],
    [sortBy({ name: sorted.name }), `sort "name" has no index on (name, id); ${NAMED_IN}`],
    [
      sortBy({ created_at: sorted.created_at }),
      `sort "created_at" has no index on (created_at, id); ${NAMED_IN}`,
    ],
    [sortBy({ note }), `sort "note" has no index on (coalesce("goods"."note", 'z'), id); ${NAMED_IN}`],
    [
      sortBy({ note: sorted.note }),
      'sort "note" is by a nullable column; it needs an expression without NULL for each direction',
    ],
    [sortBy({ name: products.name }), 'sort "name" is not by the column "name" of the table'],
    [
      {
        ...asGoods(named, {
          ...{ page: AnyText, a_null: AnyText },
          a: Type.Unsafe<string | null>({ type: ['string', 'null'] }),
        }),
        ...{ filters: ['page', 'a_null'], nullChecks: ['a'] },
      },
      '"page" cannot be the name of a filter: lists have a parameter with that name',
      '"a_null" cannot be the name of a filter: lists have a parameter with that name',
    ],
  ],
)

const added = { schema: Type.String(), value: () => 'x' }
const declare = (fields: VersionFields, version = 2): Definition => ({ versions: { [version]: fields } })
const renamed = declare({ rename: { note: 'user' } })

testMistakes('mistakes in the fields of a version stop the start', productsResource, [
  [declare({ rename: { nme: 'title' } }), /^there is no field "nme"; the fields/],
  [declare({ hide: ['stok'] }), `there is no field "stok"`],
  [declare({ rename: { name: 'sku' } }), `two fields have the name "sku"`],
  [
    declare({ rename: { created_at: 'created' }, hide: ['id'] }),
    /"created_at" cannot be .*: every version has it/,
    /"id"/,
  ],
  [declare({ rename: { stock: 'quantity' }, hide: ['stock'] }), `"stock" is both renamed and hidden`],
  [declare({ hide: ['sku'] }), `"sku" cannot be hidden: it is required at creation and has no default`],
  [declare({ add: { stock: added } }), `"stock" cannot be added`],
  [declare({ hide: ['stock'], add: { stock: added } }), `"stock" cannot be added: a field has that name`],
  [declare({ rename: { name: 'title' }, add: { title: added } }), `"title" cannot be added`],
  [
    declare({ rename: { name: 'fullName' }, add: { 'a.b': added } }),
    `"fullName" is no name of a field: use snake_case`,
    `"a.b" is no name`,
  ],
  [declare({ rename: { status: 'page' } }), `"page" cannot be the name of a filter`],
  [
    declare({ hide: ['stock'] }, 9),
    'the fields of version 9: there is no such version; the versions are 1, 2',
  ],
  // Hidden fields with a default need not be sent.
  [declare({ hide: ['stock', 'currency'], rename: { name: 'stock' } })],
])
testMistakes("the parent's id cannot be renamed, and names may be exchanged", notesResource, [
  [declare({ rename: { user_id: 'author_id' } }), /^.* names a parameter/],
  [declare({ rename: { title: 'body', body: 'title' }, hide: ['user_id'] })],
])

t.test(
  'all mistakes of all definitions and versions are reported together, and stop the service',
  async (t) => {
    const found = findMistakes(
      [
        { ...productsResource, search: ['title'], versions: { 2: { hide: ['stok'] }, 3: { hide: ['id'] } } },
        usersResource,
        { ...ordersResource, filters: ['statuss'], kept: ['state'], ...renamed },
        { ...notesResource, parent: { to: 'authors', member: 'user_id' } },
      ],
      [1, 2, 3],
    )
    t.same(
      found.map((each) => each.replace(/;.*/, '')),
      [
        'products: search "title" is not a field of the table',
        'products: the fields of version 2: there is no field "stok"',
        'products: the fields of version 3: "id" cannot be renamed or hidden: every version has it',
        'orders: filter "statuss" is not a field of the table',
        'orders: kept "state" is not a field of the schema for changes',
        'orders: the fields of version 2: "user" is the name of a relation',
        'notes: its parent "authors" is not registered',
      ],
    )
    t.same(findMistakes([{ ...ordersResource, ...renamed }]), [], 'users are not registered')
    await t.rejects(testApp(t, {}, { resources: [{ ...notesResource, relations: {} }] }), {
      message: 'notes: its parent "users" is not registered',
    })
  },
)

/** Returns the mistakes of the organizations, with other parts of one of them. */
const findInOrganizations = (name: string, parts: Definition): string =>
  findMistakes([
    ...resources,
    ...organizationResources.map((each) => (each.name === name ? { ...each, ...parts } : each)),
  ]).join('\n')
const allow = (condition: Condition, verb = 'list'): Access => ({ [verb]: { member: [condition] } })

t.test(
  'paths of access rules that lead nowhere, or of which a step has no index, stop the start',
  async (t) => {
    for (const [name, condition, mistake] of [
      [
        'tasks',
        { 'project.organisation.memberships.user_id': CALLER },
        'names "organisation", which is no relation of projects; there are "organization", "tasks"',
      ],
      [
        'projects',
        { 'members.user_id': CALLER },
        'names "members", which is no relation of projects; there are',
      ],
      [
        'projects',
        { 'organization.memberships.person_id': CALLER },
        'names "person_id", which is no column of',
      ],
      ['tasks', { 'project.organization.projects.organization.id': 'x' }, 'has more than 3 relations'],
      [
        'projects',
        { 'organization.memberships.role': CALLER },
        'compares "role" with the caller: it is no uuid',
      ],
      [
        'projects',
        { 'organization.memberships.created_at': CALLER },
        'compares "created_at" with the caller',
      ],
      ['tasks', { 'project.name': NOT_NULL }, 'is always not null'],
      [
        'projects',
        { 'organization.memberships.role': 'boss' },
        'is never "boss"; there are "owner", "member"',
      ],
      [
        'projects',
        { 'organization.name': CALLER },
        'needs an index of path_organizations that begins with "name"',
      ],
    ] as const) {
      const found = findInOrganizations(name, { access: allow(condition) })
      t.match(found, `${name}: access to list of member: "${Object.keys(condition)}" ${mistake}`)
    }
    const [, , { operations } = {}] = organizationResources
    const closings = operations?.closings
    if (!closings) throw new Error('Projects can be closed')
    const toOrganisation: RoleRules = { member: [{ 'organisation.id': CALLER }] }
    const wrong = { closings: { ...closings, access: toOrganisation } }
    const anonymous = { admin: true, anonymous: [{ 'organization.memberships.user_id': CALLER }] } as const
    for (const [parts, mistake] of [
      [{ access: allow({ lead_id: NOT_NULL }) }, '"lead_id" cannot be NOT_NULL: only a path can'],
      [
        { access: allow({ 'tasks.project_id': CALLER }, 'create') },
        'begins with rows that refer to the new one',
      ],
      [{ operations: wrong }, 'access to closings of member: "organisation.id" names'],
      [{ access: { list: anonymous } }, 'access to list of anonymous cannot name the caller'],
    ] as const)
      t.match(findInOrganizations('projects', parts), mistake)
    const access = allow({ 'organization.memberships.role': 'owner', status: 'open' })
    t.equal(findInOrganizations('projects', { access }), '')
    const tasks = organizationResources.find(({ name }) => name === 'tasks')
    if (!tasks) throw new Error('There are tasks')
    const ofLed = allow({ 'project.lead_id': NOT_NULL })
    t.equal(findInOrganizations('tasks', { access: ofLed }), '')
    t.equal(buildAccessTable({ ...tasks, access: ofLed }).list?.member, 'project.lead_id not null')

    // Each step needs an index, in both directions.
    const bare = pgTable('path_memberships', {
      ...common(),
      organization_id: uuid().notNull(),
      user_id: uuid().notNull(),
      role: text().$type<'owner' | 'member'>().notNull(),
    })
    const relink = (each: ResourceDefinition): ResourceDefinition => ({
      ...each,
      ...(each.name === 'memberships' && { table: bare }),
      relations: Object.fromEntries(
        Object.entries(each.relations).map(([name, relation]) => [
          name,
          relation.to === memberships ? { ...relation, to: bare } : relation,
        ]),
      ),
    })
    const found = findMistakes([...resources, ...organizationResources.map(relink)]).join('\n')
    const path = 'projects: access to list of member: "organization.memberships.user_id"'
    for (const column of ['organization_id', 'user_id'])
      t.match(found, `${path} needs an index of path_memberships that begins with "${column}"`)
  },
)

const { fields } = partsResource
t.test('a rule by which a hidden value could be found out stops the start', async (t) => {
  const findInParts = (changes: Definition) =>
    findMistakes([...resources, { ...partsResource, ...changes }, repairsResource]).join('\n')
  t.equal(findInParts({}), '')
  for (const [changed, mistake] of [
    [{ name: { read: admins } }, /"name" cannot be hidden from a role: it is searched/],
    [{ grade: { read: admins, write: staff } }, /manager may write but not read it/],
    [{ serial: { write: admins } }, /member may create resources but not write it/],
    [{ colour: {} }, /"colour": there is no such field/],
    [{ created_at: { read: admins } }, /show it to every role/],
    [{ kind: { write: admins } }, /no body has it/],
  ] as const)
    t.match(findInParts({ fields: { ...fields, ...changed } }), mistake)
  const cost = { code: 'OUT_OF_RANGE', fields: ['cost', 'stock'], message: 'is too low' } as const
  const other = { to: parts, local: 'code', foreign: 'serial', many: false }
  for (const [changed, mistake] of [
    [{ defaultSort: '-cost' }, /"cost" cannot be hidden from a role: it is the default sort/],
    [{ fields: { cost: { read: admins } } }, /"kind" may depend on "cost": say in `fields`/],
    [{ constraints: { parts_cost: cost } }, /a constraint compares it together with other fields/],
    [{ relations: { other } }, /"code" cannot be hidden from a role: a relation compares it/],
  ] as const)
    t.match(findInParts(changed), mistake)
})

t.test('a table by which a hidden value could be found out stops the start', async (t) => {
  const COMPARED = /"cost" cannot be hidden from a role: a constraint compares it/
  const tables: [ResourceDefinition['table'], string, RegExp][] = [
    [
      pgTable('gears', { ...common(), serial: text(), cost: integer() }, (table) => [
        uniqueIndex('gears_serial').on(table.serial).where(sql`${table.cost} > 0`),
      ]),
      'cost',
      COMPARED,
    ],
    [
      pgTable('gears', { ...common(), stock: integer(), cost: integer() }, (table) => [
        check('gears_cost', sql`${table.stock} < ${table.cost}`),
      ]),
      'cost',
      COMPARED,
    ],
    [
      pgTable('gears', { ...common(), cost: integer(), stock: integer().generatedAlwaysAs(sql`cost * 2`) }),
      'cost',
      /"stock" may depend on "cost": say in `fields`/,
    ],
    [
      pgTable('gears', { ...common(), part_id: uuid().references(() => parts.id) }),
      'part_id',
      /"part_id" cannot be hidden from a role: it refers to parts, and deleting those shows it/,
    ],
  ]
  const { part_id } = repairsResource.schemas.create.properties
  for (const [table, name, mistake] of tables) {
    const types = { ...writable, part_id } as TProperties
    const fields = Type.Pick(Type.Object(types), Object.keys(table)).properties
    const gears = define(
      { name: 'gears', singular: 'Gear', table, fields },
      { fields: { [name]: { read: admins } } },
    )
    t.match(findMistakes([...resources, partsResource, repairsResource, gears]).join(), mistake)
  }
})
