/** Arguments are validated by the schema of their tool, as they are: nothing is converted, and null counts as absent. */
import { Type } from '@sinclair/typebox'
import t from 'tap'
import { resources } from '../../../../src/resources.ts'
import { ADMIN_KEY, testApp, UNKNOWN_ID } from '../../../testing/helpers/app.ts'
import { getViolations } from '../../../testing/helpers/replies.ts'
import { replaceResource, withActions } from '../../../testing/helpers/serve.ts'
import { connectAgent, MCP } from './agent.ts'

const Count = Type.Object(
  {
    amount: Type.Integer({ minimum: 1, description: 'How many', examples: [1] }),
    place: Type.Optional(
      Type.Object(
        {
          name: Type.String({ description: 'The name' }),
          shelf: Type.Optional(Type.Integer({ description: 'The number' })),
        },
        { description: 'Where', additionalProperties: false },
      ),
    ),
  },
  { title: 'CountCreate' },
)

const adopted = replaceResource(resources, 'products', (products) =>
  withActions(products, {
    counts: {
      operationId: 'countProducts',
      summary: 'Count the products of a kind',
      description: 'Stores how many there are.',
      access: { admin: true },
      body: Count,
      run: ({ store, current, body }) => store.update(current, { description: JSON.stringify(body) }),
    },
  }),
)

const app = await testApp(t, MCP, { resources: adopted })
const admin = await connectAgent(t, app, { 'x-api-key': ADMIN_KEY })
const product = (sku: string) => ({ sku, name: 'Tea', price_amount: 450 })
const { body: made } = await admin.callTool('products_create', product('made'))
const { id } = made.data

t.test('a text is no number, a list no text, and an object no value', async (t) => {
  const types = [5, true, ['*'], [], { a: 1 }]
  const cases: [tool: string, argument: string, values: unknown[], others?: Record<string, unknown>][] = [
    ['products_list', 'limit', ['5', '', true, [1], {}]],
    ['products_list', 'search', types],
    ['products_list', 'cursor', types],
    ['products_list', 'name_prefix', types],
    ['products_list', 'created_after', [2026, ['2026-11-21'], {}]],
    ['products_list', 'description_null', ['true', 1, [true], {}]],
    ['products_list', 'price_amount_min', ['5', 1.5, [5]]],
    ['products_list', 'sort', [{}, 5]],
    ['products_list', 'fields', [{}, true]],
    ['products_list', 'status', [{}, 5]],
    ['users_list', 'include', [true, {}]],
    ['products_list', 'if_match', types],
    ['products_get', 'id', types],
    ['posts_list', 'user_id', types],
    ['products_update', 'id', types, { stock: 3 }],
    ['products_update', 'if_match', types, { id, stock: 3 }],
    ['products_update', 'idempotency_key', types, { id, stock: 3 }],
    ['products_create', 'idempotency_key', types, product('typed')],
    ['products_create', 'price_amount', ['5', [5], {}, true], { sku: 'typed', name: 'Tea' }],
    ['products_delete', 'id', [[id], { id }]],
    ['products_counts', 'id', [[id]], { amount: 1 }],
    ['products_counts', 'amount', ['1', [1], true], { id }],
    ['products_counts', 'place', [[], 'x', 5], { id, amount: 1 }],
  ]
  for (const [tool, argument, values, others] of cases)
    for (const value of values) {
      const { body, isError } = await admin.callTool(tool, { ...others, [argument]: value })
      const details = [{ field: argument, code: 'INVALID_TYPE' }]
      t.match(body, { error: { code: 'VALIDATION_ERROR', details } }, `${tool} ${argument} ${value}`)
      t.ok(isError)
    }
  t.equal((await admin.callTool('products_get', { id })).body.data.stock, 0)
  t.equal((await admin.callTool('products_list', { sku: ['typed'] })).body.data.length, 0)
})

/** Arguments of a tool, and their violations, sorted. */
const refused: [tool: string, sent: Record<string, unknown>, ...violations: string[]][] = [
  [
    'products_create',
    { sku: '?', name: 5 },
    'name INVALID_TYPE',
    'price_amount REQUIRED',
    'sku INVALID_FORMAT',
  ],
  ['products_create', { ...product('x'), colour: 'red' }, 'colour UNKNOWN_FIELD'],
  ['products_list', { limit: 0, colour: 'red' }, 'colour UNKNOWN_PARAMETER', 'limit OUT_OF_RANGE'],
  ['products_list', { status: { a: 1 } }, 'status INVALID_TYPE'],
  ['products_get', {}, 'id REQUIRED'],
  ['products_delete', { id: UNKNOWN_ID, force: true }, 'force UNKNOWN_PARAMETER'],
  ['posts_create', { title: 'x' }, 'user_id REQUIRED'],
  [
    'posts_list',
    { limit: 0, search: 5, sort: ['name'] },
    ...['limit OUT_OF_RANGE', 'search INVALID_TYPE', 'sort.0 INVALID_VALUE', 'user_id REQUIRED'],
  ],
  // A value in a list is one value, and so is a text in its place.
  ['products_list', { status: 'draft,active' }, 'status INVALID_VALUE', 'status.0 INVALID_VALUE'],
  ['products_list', { sort: 'colour' }, 'sort INVALID_VALUE'],
  ['products_list', { sku: ['made,other'] }, 'sku INVALID_VALUE', 'sku.0 INVALID_FORMAT'],
  ['products_list', { fields: ['id,sku'] }, 'fields INVALID_VALUE', 'fields.0 INVALID_VALUE'],
  ['orders_list', { number: ['1,2'] }, 'number INVALID_VALUE'],
  ['products_list', { sku: [['made']] }, 'sku.0 INVALID_TYPE'],
  ['products_list', { sku: ['made', 5] }, 'sku.1 INVALID_TYPE'],
  ['products_list', { sku: [null] }, 'sku.0 INVALID_TYPE'],
  ['products_list', { sku: Array(100_000).fill(5) }, 'sku TOO_LONG'],
  ['products_list', { search: '\ud800' }, 'search INVALID_FORMAT'],
  ['products_list', { sku: ['a\udc00'] }, 'sku INVALID_FORMAT', 'sku.0 INVALID_FORMAT'],
  // Null is refused where an argument is required or unknown.
  ['products_get', { id: null }, 'id INVALID_TYPE'],
  ['posts_list', { user_id: null }, 'user_id INVALID_TYPE'],
  ['products_create', { ...product('null-2'), name: null }, 'name INVALID_TYPE'],
  ['products_list', { colour: null }, 'colour UNKNOWN_PARAMETER'],
  ['products_list', { toString: null }, 'toString UNKNOWN_PARAMETER'],
  ['products_delete', { id, hasOwnProperty: null }, 'hasOwnProperty UNKNOWN_PARAMETER'],
  ['products_create', { ...product('null-2'), valueOf: null }, 'valueOf UNKNOWN_FIELD'],
  [
    'products_counts',
    { id, amount: null, place: { name: null } },
    ...['amount INVALID_TYPE', 'place.name INVALID_TYPE'],
  ],
]

t.test('invalid arguments are errors that name them', async (t) => {
  for (const [tool, sent, ...violations] of refused) {
    const { body, isError } = await admin.callTool(tool, sent)
    const name = `${tool} ${JSON.stringify(sent).slice(0, 50)}`
    t.same([isError, body.error?.code], [true, 'VALIDATION_ERROR'], name)
    const found = getViolations({ body } as Parameters<typeof getViolations>[0])
    t.same(found.length > 9 ? found.slice(0, 1) : found, violations, name)
  }
})

t.test('null counts as absent where an argument is optional and not nullable', async (t) => {
  const sent = { ...product('null-1'), idempotency_key: null, stock: null, status: null, description: null }
  const created = await admin.callTool('products_create', sent)
  t.match(created.body.data, { sku: 'null-1', stock: 0, status: 'draft', description: null })
  const again = await admin.callTool('products_create', sent)
  t.equal(again.body.error?.code, 'RESOURCE_CONFLICT', 'null is no Idempotency-Key')

  const list = { search: null, limit: null, cursor: null, page: null, sort: null, fields: null }
  const found = await admin.callTool('products_list', { ...list, description_null: null, sku: ['null-1'] })
  t.strictSame(found.body.data, [created.body.data])

  const change = { id: created.body.data.id, description: 'Green', name: null, if_match: null }
  const changed = await admin.callTool('products_update', change)
  t.match(changed.body.data, { name: 'Tea', description: 'Green' })
  const cleared = await admin.callTool('products_update', { ...change, description: null })
  t.match(cleared.body.data, { name: 'Tea', description: null })
})

t.test('a text is a list of one where the schema has a list of texts', async (t) => {
  for (const sku of ['one', 'two']) await admin.callTool('products_create', product(sku))
  const { body } = await admin.callTool('products_list', { sku: 'one', fields: 'sku', sort: '-sku' })
  t.strictSame(
    body.data.map((each: { sku: string }) => each.sku),
    ['one'],
  )
  t.strictSame(Object.keys(body.data[0]), ['id', 'sku'])
  const own = await admin.callTool('users_list', { include: 'orders', status: 'active' })
  t.strictSame(own.body.data[0].orders, [])
  const counted = await admin.callTool('products_aggregate', { measures: 'count', sku: ['one', 'two'] })
  t.equal(counted.body.data[0].count, 2)
  const ordered = await admin.callTool('orders_create', { items: id })
  const fields = ordered.body.error.details.map((each: { field: string }) => each.field)
  t.same(fields, ['items'], 'a list of objects is none')
})

t.test('null within the body of an own operation counts as absent, too', async (t) => {
  const counted = await admin.callTool('products_counts', {
    ...{ id, amount: 2, if_match: null, idempotency_key: null },
    place: { name: 'Cellar', shelf: null },
  })
  t.equal(counted.body.data.description, '{"amount":2,"place":{"name":"Cellar"}}')
  const without = await admin.callTool('products_counts', { id, amount: 2, place: null })
  t.equal(without.body.data.description, '{"amount":2}')
})
