/** What a batch does at the edges: other definitions and versions, slow work, deadlocks, clients that leave, replays. */
import { connect } from 'node:net'
import { Type } from '@sinclair/typebox'
import { pgTable, uuid } from 'drizzle-orm/pg-core'
import t from 'tap'
import { resources } from '../../../../src/resources.ts'
import { apiError } from '../../../api/src/errors/errors.ts'
import { exampleId, Id, Nullable, Text } from '../../../api/src/schemas/types.ts'
import { v1 } from '../../../api/src/versions/representation/v1.ts'
import { v2 } from '../../../api/src/versions/representation/v2.ts'
import { DatabaseUnavailable } from '../../../database/src/client/errors.ts'
import { common, text } from '../../../database/src/columns.ts'
import { v3 } from '../../../docs/test/version-3/v3.ts'
import {
  ADMIN_KEY,
  type Json,
  quickHasher,
  type Reply,
  testApp,
  UNKNOWN_ID,
} from '../../../testing/helpers/app.ts'
import { createSharedDatabase } from '../../../testing/helpers/database.ts'
import { readChanges, stopEventWork } from '../../../testing/helpers/events.ts'
import { createKeyHeader, getViolations, isReplayed } from '../../../testing/helpers/replies.ts'
import { createTable } from '../../../testing/helpers/rows.ts'
import { serve } from '../../../testing/helpers/serve.ts'
import { intercept, overhear } from '../../../testing/helpers/statements.ts'
import { createDeferred, type Deferred, waitUntil } from '../../../testing/helpers/time.ts'
import { createUniqueName, newProduct } from '../../../testing/helpers/versioned-client.ts'
import { define } from './adopted.ts'

const shared = await createSharedDatabase(t)
const statements = overhear(shared)
const post = (path: string, body?: Json): Json => ({ method: 'POST', path, body })
const patch = (path: string, body: Json, if_match?: string): Json => ({
  ...{ method: 'PATCH', path, body },
  if_match,
})
const getResults = ({ body, text: sent }: Reply): Json[] => body.data?.results ?? t.comment(sent)

const all = { admin: true, manager: true, member: true } as const
const access = { list: all, read: all, create: all, replace: all, update: all, remove: all }
const code = Text({ minLength: 1, maxLength: 20, examples: ['a'] })
const shelves = pgTable('shelves', { ...common(), code: text().notNull() })
const shelf_id = () => uuid().references(() => shelves.id)
const volumes = pgTable('volumes', {
  ...common(),
  shelf_id: shelf_id().notNull(),
  next_id: uuid(),
  code: text().notNull(),
})
const notices = pgTable('notices', { ...common(), code: text().notNull() })
let preparations: string[] = []
async function prepare({ body: { code: sent } }: { body: { code?: unknown } }) {
  preparations.push(String(sent))
  if (sent === 'wrong') throw apiError('FORBIDDEN', { message: 'It cannot be prepared' })
  return { columns: {} }
}
const definitions = [
  serve(
    define(
      { name: 'shelves', singular: 'Shelf', table: shelves, fields: { code } },
      {
        // Of members, the row of the parent decides.
        access: { ...access, read: { admin: true, member: [{ code: 'a' }] } },
        relations: { volumes: { to: volumes, local: 'id', foreign: 'shelf_id', many: true } },
      },
    ),
    {
      actions: {
        labels: {
          ...{ operationId: 'createLabel', summary: 'Create a label', description: 'Returns a label.' },
          access: { admin: true },
          response: Type.Object({ id: Id(), label: code }, { title: 'Label' }),
          run: async ({ current: { id, code: label } }) => ({ id, label, secret: 'hidden' }),
        },
        emptyings: {
          ...{ operationId: 'emptyShelf', summary: 'Empty a shelf', description: 'Moves its volumes.' },
          access: { admin: true },
          body: Type.Object(
            { to_id: Text({ format: 'uuid', examples: [exampleId] }) },
            { title: 'Emptying' },
          ),
          run: ({ store, current, body: { to_id } }) =>
            store.update(current, { ...current, code: `to ${to_id}` }),
        },
      },
    },
  ),
  serve(
    define(
      {
        ...{ name: 'volumes', singular: 'Volume', table: volumes, readOnly: { shelf_id: Id() } },
        fields: { next_id: Type.Optional(Nullable(Id('The next'))), code },
      },
      {
        parent: { to: 'shelves', member: 'shelf_id' },
        access,
      },
    ),
    { create: { prepare }, change: { prepare } },
  ),
  define(
    { name: 'notices', singular: 'Notice', table: notices, fields: { code } },
    { access, bearerOnly: true },
  ),
]
for (const table of [shelves, volumes, notices]) await createTable(shared, table)
const { admin, person } = await testApp(
  t,
  {},
  {
    database: statements.database,
    resources: [...resources, ...definitions],
    versions: [v1, v2, v3].map((representation) => ({ representation })),
  },
)
const run = (operations: Json[], headers = {}, path = '/batches') => admin.post(path, { operations }, headers)

t.test('slow work waits for a parent of the same batch, is done once, and not after it failed', async (t) => {
  const [made] = getResults(await run([post('/shelves', { code: 'a' })]))
  const path = `/shelves/${made.body.id}/volumes`
  const { client } = await person('member')
  preparations = []
  const operations = [
    post('/shelves', { code: 'a' }),
    post('/shelves/$0/volumes', { code: 'b' }),
    post(path, { code: 'c' }),
    patch('/shelves/$0/volumes/$1', { code: 'd', next_id: '$2' }),
  ]
  const reply = await client.post('/batches', { operations })
  t.equal(reply.status, 200, reply.text)
  t.equal(getResults(reply)[3].body.next_id, getResults(reply)[2].body.id)
  t.same(preparations, ['c', 'b', 'd'], 'each once')
  for (const [header, first, to] of [
    [{}, [], path],
    [createKeyHeader(), [], path],
    // In the transaction, since the parent is there only then.
    [{}, [post('/shelves', { code: 'a' })], '/shelves/$0/volumes'],
  ] as const) {
    preparations = []
    const failing = ['b', 'wrong', 'c'].map((each) => post(to, { code: each }))
    const refused = await run([...first, ...failing], header)
    t.same([refused.status, getViolations(refused)], [403, [`operations.${first.length + 1} FORBIDDEN`]])
    t.same(preparations, ['b', 'wrong'])
  }
  t.equal((await admin.get(path)).body.data.length, 1)
})

t.test('own operations: ids in their bodies, and only the fields of their response', async (t) => {
  const operations = [
    post('/shelves', { code: 'a' }),
    post('/shelves/$0/labels'),
    post('/shelves/$0/emptyings', { to_id: '$0' }),
  ]
  for (const version of [1, 2]) {
    const reply = await run(operations, {}, `/v${version}/batches`)
    t.equal(reply.status, 200, reply.text)
    const [made, label, emptied] = getResults(reply)
    const { id } = made.body
    const expected = version === 1 ? { id, label: 'a' } : { id, type: 'labels', attributes: { label: 'a' } }
    t.same(label.body, expected)
    t.equal((emptied.body.attributes ?? emptied.body).code, `to ${id}`)
  }
  const member = await person('member')
  const refused = await member.client.post('/batches', { operations })
  t.same(getViolations(refused), ['operations.1.path FORBIDDEN', 'operations.2.path FORBIDDEN'])
  const later = await run([...operations.slice(0, 2), patch('/shelves/$1', { code: 'b' })])
  t.same(getViolations(later), ['operations.2.path INVALID_VALUE'], 'it creates no shelf')
})

t.test('a collection for Bearer tokens refuses keys, and sessions that have ended', async (t) => {
  const user = await person('admin')
  const operations = [post('/notices', { code: 'a' }), patch('/notices/$0', { code: 'b' })]
  t.same(getViolations(await user.client.post('/batches', { operations })), [
    'operations.0.path FORBIDDEN',
    'operations.1.path FORBIDDEN',
  ])
  const header = createKeyHeader()
  const reply = await user.bearer.post('/batches', { operations }, header)
  t.match(getResults(reply)[1].body, { code: 'b' })
  t.equal((await user.bearer.post('/batches', { operations }, header)).text, reply.text)
  await shared.run('delete from sessions where id = $1', [user.sessionId])
  t.equal((await user.bearer.post('/batches', { operations })).status, 401)
  t.equal((await shared.run('select code from notices')).length, 1)
})

t.test('paths, references and bodies that are wrong, in the names of the version', async (t) => {
  const typed = (attributes: Json, id?: string, type = 'products') => ({ data: { type, id, attributes } })
  const good = { code: createUniqueName('sku'), title: 'Tea', price_amount: 1 }
  const third = await run([post('/products', good)], {}, '/v3/batches')
  t.match(getResults(third)[0].body, { code: good.code, title: 'Tea' })
  const reply = await run(
    [
      post('/products', typed(newProduct({ name: '$0' }))),
      patch('/products/$0', typed({ description: '$0' }, '$0')),
      { method: 'PUT', path: '/products/$0/', body: typed(newProduct({ name: '$1' }), '$0') },
    ],
    {},
    '/api/v2/batches',
  )
  t.equal(reply.status, 200, reply.text)
  t.same(
    getResults(reply).map(({ body: { type, attributes } }) => [
      type,
      attributes.name,
      attributes.description,
    ]),
    [
      ['products', '$0', null],
      ['products', '$0', '$0'],
      ['products', '$1', null],
    ],
    'ids are replaced, texts are not',
  )

  const references = ['$1', '$01', '$99999999999', `$${'9'.repeat(400)}`].map((id) =>
    patch(`/products/${id}`, {}),
  )
  const items = ['$7', '$8', `$7${'0'.repeat(12)}`].map((product_id) => ({ product_id, quantity: 1 }))
  const paths = [
    ...['/products/%zz', '/products%2f1', '//products', '/products//', 'products', '/Products', '/batches/1'],
    'http://127.0.0.1/products/1',
  ]
  const each = (operations: Json[], text: string, from = 0) =>
    operations.map((_, i) => text.replace('#', `${i + from}`))
  const ofFirst = (body: Json) => [post('/products', newProduct()), patch('/products/$0', body)]
  const cases: [version: number, operations: Json[], violations: string[], status?: number][] = [
    [
      1,
      [post('/products', newProduct()), ...references],
      each(references, 'operations.#.path INVALID_VALUE', 1),
    ],
    [1, [post('/orders', { items })], each(items, 'operations.0.body.items.#.product_id INVALID_VALUE')],
    [1, paths.map((path) => patch(path, {})), each(paths, 'operations.#.path NOT_FOUND')],
    [
      1,
      [post('', {}), post(`/${'a'.repeat(8_192)}`, {})],
      ['operations.0.path TOO_SHORT', 'operations.1.path TOO_LONG'],
    ],
    ...['a'.repeat(400), '$', '$-1', '$0x', '%240', '%F0%9F%98%80'].map((id): (typeof cases)[number] => [
      1,
      [patch(`/products/${id}`, {})],
      ['operations.0 NOT_FOUND'],
      404,
    ]),
    [2, ofFirst(typed({ stock: 1 }, UNKNOWN_ID)), ['operations.1.body.data.id INVALID_VALUE']],
    [2, ofFirst(typed({ stock: 'x' }, '$0')), ['operations.1.body.data.attributes.stock INVALID_TYPE']],
    [2, ofFirst(typed({ stock: 1 }, '$0', 'users')), ['operations.1.body.data.type INVALID_VALUE']],
    [3, [post('/products', good)], ['operations.0.body.code ALREADY_EXISTS'], 409],
    [
      3,
      [post('/products', { ...good, title: '', sku: 'a' })],
      ['operations.0.body.sku UNKNOWN_FIELD', 'operations.0.body.title TOO_SHORT'],
    ],
  ]
  for (const [version, operations, violations, status = 422] of cases) {
    const refused = await run(operations, {}, `/v${version}/batches`)
    t.same([refused.status, getViolations(refused)], [status, violations])
  }
  const many = await run([{ method: 'POST' }, ...Array.from({ length: 60 }, () => post('/nothing', {}))])
  t.same(
    many.body.error.details.map(({ field }: Json) => field),
    Array.from({ length: 50 }, (_, i) => `operations.${i}.path`),
    'the first 50, in the order of the operations',
  )
})

t.test('If-Match, forbidden rows and no events, as the settings say', async (t) => {
  const settings = { REQUIRE_IF_MATCH: 'true', HIDE_FORBIDDEN: 'true', EVENTS: 'false' }
  const { admin, adminId, person } = await testApp(t, settings, { database: shared })
  const run = (operations: Json[]) => admin.post('/batches', { operations })
  const tag = (revision: number) => `"${revision}-abcdefghijkl"`
  const first = post('/products', newProduct())
  const good = await run([
    first,
    patch('/products/$0', { stock: 1 }, `${tag(9)}, ${tag(1)}`),
    patch('/products/$0', { stock: 2 }, '*'),
    { method: 'PUT', path: '/products/$0', body: newProduct(), if_match: `W/${tag(3)}` },
    { method: 'DELETE', path: '/products/$0', if_match: tag(4) },
  ])
  t.equal(good.status, 200, good.text)
  const id = String(good.headers.get('x-request-id'))
  t.notOk((await readChanges(shared)).some(({ request_id }) => request_id === id))
  const without = await run([first, patch('/products/$0', { stock: 1 })])
  t.same(
    [without.status, without.body.error.code, getViolations(without)],
    [428, 'PRECONDITION_REQUIRED', ['operations.1 INVALID_VALUE']],
  )
  const late = await run([first, patch('/products/$0', { stock: 1 }, tag(2))])
  t.same([late.status, late.headers.get('etag')], [412, null])
  t.same(getViolations(await run([{ ...first, if_match: '*' }])), ['operations.0.if_match UNKNOWN_FIELD'])
  const member = await person('member')
  const operations = [patch('/users/me', { name: 'A' }, '*'), patch(`/users/${adminId}`, { name: 'B' }, '*')]
  const reply = await member.client.post('/batches', { operations })
  t.same([reply.status, getViolations(reply)], [404, ['operations.1 NOT_FOUND']])
})

t.test(
  'results beyond 8 MiB are refused before further operations run, and nothing is written',
  async (t) => {
    // Of three bytes each: fewer than 8 Mi characters.
    const long = await admin.post('/users/me/posts', { title: 'Long', body: '€'.repeat(80_000) })
    const path = `/users/me/posts/${long.body.data.id}`
    const operations = Array.from({ length: 60 }, (_, i) => patch(path, { title: `Long ${i}` }))
    const readTitle = async () => (await admin.get(path)).body.data.title
    statements.take()
    const reply = await run(operations)
    const updates = statements.take().statements.filter((each) => each.includes('update "posts"'))
    t.same([reply.status, getViolations(reply)], [422, ['operations OUT_OF_RANGE']])
    t.ok(updates.length < 40, `${updates.length} updates`)
    t.equal(await readTitle(), 'Long')
    const minimal = await run(operations, { prefer: 'return=minimal' })
    t.same([minimal.status, await readTitle()], [200, 'Long 59'])
  },
)

t.test(
  'with an Idempotency-Key it runs once; a replay is the stored response in the form of the request',
  async (t) => {
    const header = createKeyHeader()
    const operations = [post('/products', newProduct()), post('/users/me/posts', { title: 'A', body: 'B' })]
    const first = await run(operations, header, '/api/v1/batches')
    t.equal(first.status, 200, first.text)
    const again = await run(operations, header)
    t.same([isReplayed(again), again.text], [true, first.text])
    t.equal((await run(operations, header, '/v2/batches')).status, 409, 'a key of its own; the SKU is taken')
    for (const reply of [
      await run(operations, { ...header, prefer: 'return=minimal' }),
      await run(operations.slice(1), header),
    ])
      t.equal(reply.body.error.code, 'IDEMPOTENCY_KEY_REUSED')
  },
)

t.test('batches that lock the same rows in opposite orders: each whole, or 503', async (t) => {
  const made = await run([post('/products', newProduct()), post('/products', newProduct())])
  const paths = getResults(made).map(({ body }) => `/products/${body.id}`)
  const replies = await Promise.all(
    Array.from({ length: 12 }, (_, i) => {
      const ordered = i % 2 === 0 ? paths : paths.toReversed()
      return run(ordered.map((path) => patch(path, { stock: i + 1 })))
    }),
  )
  for (const { status, headers } of replies) {
    if (status !== 200) t.same([status, Number(headers.get('retry-after')) >= 1], [503, true])
  }
  t.ok(replies.some(({ status }) => status === 200))
  const [one, other] = await Promise.all(paths.map((path) => admin.get(path)))
  t.equal(one?.body.data.stock, other?.body.data.stock)
})

t.test('wrong passwords, lost deadlocks and clients that leave', async (t) => {
  let onStatement: (text: string) => unknown = () => {}
  let verified = 0
  const { app, admin, person, port } = await testApp(
    t,
    {},
    {
      database: intercept(shared, (each) => onStatement(each)),
      passwordHasher: {
        ...quickHasher,
        verify(hashed, password) {
          verified += 1
          return quickHasher.verify(hashed, password)
        },
      },
    },
  )
  const count = async (name: string) =>
    (await shared.run('select 1 from products where name = $1', [name])).length

  t.test('a wrong current password counts once, and nothing is written', async (t) => {
    const user = await person('admin')
    const password = 'twelve brass cogs, turning'
    const changed = await user.bearer.post('/batches', {
      operations: [
        post('/users', { name: 'Grace', email: 'grace@example.com', password }),
        patch('/users/me', { password, current_password: 'wrong password' }),
        post('/users', { name: 'Joan', email: 'joan@example.com', password }),
      ],
    })
    t.same([changed.status, getViolations(changed), verified], [403, ['operations.1 FORBIDDEN'], 1])
    t.same((await admin.get('/users?email=grace@example.com')).body.data, [])
  })

  t.test('a batch that loses a deadlock is repeated once, then 503', async (t) => {
    for (const [losses, status] of [
      [1, 200],
      [2, 503],
    ] as const) {
      let tries = 0
      onStatement = (each) => {
        if (!each.includes('insert into "products"')) return
        tries += 1
        if (tries <= losses) throw new DatabaseUnavailable('A deadlock', { code: '40P01' })
      }
      const name = createUniqueName('lost')
      const operations = [post('/products', newProduct({ name })), post('/products', newProduct({ name }))]
      const reply = await admin.post('/batches', { operations }, createKeyHeader())
      t.same([reply.status, tries], [status, 2], reply.text)
      t.equal(await count(name), status === 200 ? 2 : 0)
      if (status === 503) t.ok(Number(reply.headers.get('retry-after')) >= 1)
    }
  })

  t.test('a client that leaves: all of its batch or nothing, and nothing is held', async (t) => {
    // Its statements would count as those of the batch.
    await stopEventWork(app)
    const closed: Deferred[] = []
    app.server.on('connection', (socket) => {
      const each = createDeferred()
      closed.push(each)
      socket.once('close', each.resolve)
    })
    const name = createUniqueName('left')
    const product = () => post('/products', newProduct({ name }))
    const operations = [product(), product(), patch('/users/me', { name }), product()]
    const body = JSON.stringify({ operations })
    const head = `POST /batches HTTP/1.1\r\nhost: a\r\nx-api-key: ${ADMIN_KEY}\r\ncontent-type: application/json`
    const counts: number[] = []
    for (let leaveAt = 1; counts.at(-1) !== 3; leaveAt++) {
      const socket = connect(port, '127.0.0.1').on('error', () => {})
      let seen = 0
      const { promise, resolve } = createDeferred()
      onStatement = async () => {
        seen += 1
        if (seen !== leaveAt) return
        if (leaveAt % 2 === 0) socket.destroy()
        else socket.resetAndDestroy()
        await closed.at(-1)?.promise
        resolve()
      }
      socket.write(`${head}\r\ncontent-length: ${body.length}\r\n\r\n${body}`)
      await promise
      await waitUntil(() => shared.$client.getLoad().used === 0)
      counts.push(await count(name))
      onStatement = () => {}
    }
    t.same(counts.slice(0, -1), counts.slice(0, -1).fill(0), `${counts.length} moments`)
    t.ok(counts.length >= 4)
    t.equal((await admin.post('/batches', { operations: [product()] })).status, 200)
  })
})
