/** Compiling resources resolves relations and parents. Mistakes in definitions stop the start, all of them together. */
import { type TProperties, Type } from '@sinclair/typebox'
import { sql } from 'drizzle-orm'
import { check, foreignKey, index, pgTable, uniqueIndex, uuid } from 'drizzle-orm/pg-core'
import t from 'tap'
import { resources as registered } from '../../../../src/resources.ts'
import { users as usersResource } from '../../../accounts/src/users.ts'
import {
  type Access,
  CALLER,
  type Condition,
  NOT_NULL,
  type RoleRules,
} from '../../../api/src/rules/rules.ts'
import { common, integer, text } from '../../../database/src/columns.ts'
import { users } from '../../../database/src/user-tables.ts'
import { testApp } from '../../../testing/helpers/app.ts'
import { notesResource, resourcesWithNotes } from '../../../testing/helpers/notes.ts'
import {
  memberships,
  organizationResources as organizations,
} from '../../../testing/helpers/organizations.ts'
import { toCollections } from '../../../testing/helpers/serve.ts'
import {
  orders,
  ordersResource as shopOrders,
  productsResource as shopProducts,
} from '../../../testing/helpers/shop.ts'
import { compileResources } from '../../src/compile.ts'
import { describeOperations } from '../../src/definition/access-cells.ts'
import type { ResourceDefinition } from '../../src/definition/definition.ts'
import { define } from './adopted.ts'
import { admins, parts, partsResource, repairsResource, staff, writable } from './restricted-parts.ts'

type Definition = Partial<ResourceDefinition>
const resources = toCollections(registered)
const organizationResources = toCollections(organizations)

/** Without what depends on the filters and the search that the changes of the tests replace. */
const conditions = { negations: [], nullChecks: [], prefixes: [], unindexed: [] } satisfies Definition
const user = { to: users, local: 'user_id', foreign: 'id', many: false }
const ordersResource: ResourceDefinition = { ...shopOrders, ...conditions, relations: { user } }
const productsResource: ResourceDefinition = { ...shopProducts, ...conditions }

/** Returns the mistakes that stop the start. */
function findMistakes(definitions: readonly ResourceDefinition[]): string[] {
  try {
    compileResources(definitions)
    return []
  } catch (error) {
    if (!(error instanceof Error)) throw error
    return error.message.split('\n')
  }
}

type Cases = readonly (readonly [change: Definition, ...mistakes: (string | RegExp)[]])[]

/** Returns the other resources, without relations to a table that the change replaces. */
const listOthers = ({ name, table }: ResourceDefinition, change: Definition): ResourceDefinition[] =>
  resources
    .filter((each) => each.name !== name)
    .map((each) => {
      const kept = Object.entries(each.relations).filter(([, { to }]) => !change.table || to !== table)
      return { ...each, relations: Object.fromEntries(kept) }
    })

/**
 * Tests that each change of a definition leads to the mistakes that begin as named, after its name, and to no others.
 */
const testMistakes = (title: string, definition: ResourceDefinition, cases: Cases) =>
  t.test(title, async (t) => {
    for (const [change, ...mistakes] of cases) {
      const changed: ResourceDefinition = { ...definition, ...change }
      const found = findMistakes([...listOthers(definition, change), changed])
      t.equal(found.length, mistakes.length, found.join('\n'))
      for (const [i, mistake] of mistakes.entries()) {
        const message = found[i]?.replace(/^.*?: /, '') ?? ''
        const isFound = typeof mistake === 'string' ? message.startsWith(mistake) : mistake.test(message)
        t.ok(isFound, `${message} is ${mistake}`)
      }
    }
  })

t.test('relations and parents refer to the compiled resources', async (t) => {
  const compiled = compileResources(toCollections(resourcesWithNotes))
  const get = (name: string) => compiled.find((resource) => resource.name === name)
  t.equal(get('notes')?.parent?.to, get('users'))
  t.equal(get('users')?.relations.notes?.to, get('notes'))
  t.equal(get('orders')?.relations.user?.to, get('users'))
  t.match(findMistakes([usersResource]), [
    /^users: the relation "profile" leads to the table "user_profiles", of which no resource is registered/,
  ])
})

t.test('a definition adds a relation to the resource that it refers to', async (t) => {
  const relate = (inverse: string, changes = {}) => [
    usersResource,
    { ...ordersResource, relations: { user: { ...user, inverse, ...changes } } },
    ...resources.filter(({ name }) => name !== 'users' && name !== 'orders'),
  ]
  const [compiledUsers, compiledOrders] = compileResources(relate('purchases'))
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
const filterUser = (filters: string[], changes = {}): Definition => ({
  relations: { user: { ...user, filters, ...changes } },
})
const byNote = { local: 'note', foreign: 'name' }

testMistakes(
  'references that no rule can check, and names that lead nowhere, stop the start',
  ordersResource,
  [
    [{ defaultSort: '-position' }, 'default sort "position" is not one of the sorts'],
    // References that cannot be checked, and a search without its column.
    [twoColumns, 'the foreign key of "user_id", "created_at" has several columns'],
    [{ ...twoColumns, uncheckedReferences: ['user_id'] }],
    [
      { ...asListOf(numbers, ['number']), search: ['number'] },
      'search needs the column "search" of the table',
    ],
    // Filters of relations.
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
  ],
)

const refund = (access: RoleRules): Definition => ({ operations: { refunds: { access } } })
const ofCaller = [{ user_id: CALLER }] as const

testMistakes('rules that permit nothing stop the start', ordersResource, [
  [{ access: { list: { admin: true, anonymous: ofCaller } } }, 'access to list of anonymous cannot name the'],
  [refund({ anonymous: ofCaller }), 'access to refunds of anonymous is not possible: without'],
  [{ access: {} }, 'access permits no operation to any role'],
  [{ access: { list: { admin: false } } }, 'access permits no operation to any role'],
  [{ access: { list: { admin: true } } }],
])

const MALFORMED = ['userProfiles', 'user_profiles', 'goods-', '2goods', 'v3', '']
const RESERVED = ['docs', 'openapi', 'livez', 'readyz', 'metrics', 'mcp', 'me', 'tokens', 'batches']
const RESERVED_LINKS = ['password-resets', 'email-verifications']
const { schemas } = productsResource
const change = (changed: Partial<typeof schemas>): Definition => ({ schemas: { ...schemas, ...changed } })
const { title: _, ...untitled } = schemas.create
const unused = Type.Object({})

testMistakes('wrong names, schemas, filters and ranges stop the start', productsResource, [
  ...MALFORMED.map((name) => [{ name }, 'the name is not in kebab-case'] as const),
  ...[...RESERVED, ...RESERVED_LINKS].map((name) => [{ name }, `the path /${name} is reserved`] as const),
  [change({ create: untitled }), 'the schema "create" has no title'],
  // The schemas of operations that the resource lacks are not checked.
  [{ ...change({ create: unused, change: unused }), verbs: ['list', 'read'], kept: [] }],
  [
    { filters: ['name', 'stock'] },
    'filter "stock" has no index that begins with (stock); add one, or name it in `unindexed` with a comment that says why',
  ],
  [{ ranges: ['stock'] }, 'range "stock" has no index that begins with (stock); add one, or name it in'],
  [{ ranges: ['stock'], unindexed: ['stock'] }],
  [{ filters: ['created_at'] }, /^filter "created_at" must be .* a time belongs in /],
  // Negations, null checks and prefixes.
  [{ negations: ['status'], prefixes: ['sku', 'name'] }],
  [{ negations: ['price_amount'] }, 'negation "price_amount" is not one of the filters'],
  [
    { negations: ['currency'] },
    'negation "currency" has no index, since it is no enum and no boolean; name "currency_not" in `unindexed`',
  ],
  [{ negations: ['currency'], unindexed: ['currency_not'] }],
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
])

t.test('two resources of one name, or of one table, stop the start', async (t) => {
  t.same(findMistakes([productsResource, productsResource]), [
    'products: several resources have the name "products"',
    'products: several resources are stored in the table "products"',
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
const grouped = pgTable('goods', { ...common(), group_by: text().notNull() }, (t) => [index().on(t.group_by)])
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

testMistakes('sorts without an index, and ambiguous parameters, stop the start', productsResource, [
  [sortBy({ sku: sorted.sku, note: { ...note, ascending: note.descending } })],
  [{ ...sortBy({ name: sorted.name }), unindexed: ['name'] }],
  [sortBy({ name: sorted.name }), `sort "name" has no index on (name, id); ${NAMED_IN}`],
  [
    sortBy({ created_at: sorted.created_at }),
    `sort "created_at" has no index on (created_at, id); ${NAMED_IN}`,
  ],
  [sortBy({ note }), `sort "note" has no index on (coalesce("goods"."note", 'z'), id); ${NAMED_IN}`],
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
  [
    {
      ...asGoods(grouped, { group_by: AnyText }),
      ...{ filters: ['group_by'], aggregates: { groups: ['group_by'] } },
    },
    '"group_by" cannot be the name of a filter: lists have a parameter with that name',
  ],
])

testMistakes('every role reads the id of the parent', notesResource, [
  [
    { fields: { user_id: { write: admins } } },
    /^the rule of field "user_id": addresses, tags .* to every role/,
  ],
])

t.test('all mistakes of all definitions are reported together, and stop the service', async (t) => {
  const found = findMistakes([
    { ...productsResource, defaultSort: 'title' },
    { ...usersResource, relations: {} },
    { ...ordersResource, negations: ['note'] },
    { ...notesResource, parent: { to: 'authors', member: 'user_id' } },
  ])
  t.same(
    found.map((each) => each.replace(/;.*/, '')),
    [
      'products: default sort "title" is not one of the sorts',
      'orders: negation "note" is not one of the filters',
      'notes: its parent "authors" is not registered',
    ],
  )
  await t.rejects(testApp(t, {}, { resources: [{ ...notesResource, relations: {} }] }), {
    message: 'notes: its parent "users" is not registered',
  })
})

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
      ['tasks', { 'project.organization.projects.organization.id': 'x' }, 'has more than 3 relations'],
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
    t.equal(describeOperations({ ...tasks, access: ofLed }).list?.member, 'project.lead_id not null')

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
    [{ colour: {} }, /"colour": there is no such field/],
    [{ created_at: { read: admins } }, /show it to every role/],
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
