/** What a batch does at the edges: other definitions and versions, slow work, deadlocks, clients that leave, replays. */
import { connect } from 'node:net'
import { Type } from '@sinclair/typebox'
import { pgTable, uuid } from 'drizzle-orm/pg-core'
import t from 'tap'
import { createDatabase } from '../../drizzle/client/database.ts'
import { DatabaseUnavailable } from '../../drizzle/client/errors.ts'
import { common, moment, text } from '../../drizzle/columns.ts'
import type { ResourceDefinition } from '../../plugins/collection/definition.ts'
import { apiError } from '../../plugins/errors/index.ts'
import { v1 } from '../../plugins/versioning/representation/v1.ts'
import { common as commonFields, exampleId, Id, Nullable, Text, Timestamp } from '../../schemas/types.ts'
import { resources } from '../../src/app.ts'
import { productsResource as fixtureProducts } from '../fixtures/resources/products.ts'
import { ADMIN_KEY, type Json, quickHasher, type Reply, testApp, UNKNOWN_ID } from '../helpers/app.ts'
import { createSharedDatabase, testDatabase } from '../helpers/database.ts'
import { readChanges } from '../helpers/events.ts'
import { createKeyHeader, getViolations, isReplayed } from '../helpers/replies.ts'
import { createTable } from '../helpers/rows.ts'
import { overhear } from '../helpers/statements.ts'
import { createDeferred, type Deferred, waitUntil } from '../helpers/time.ts'
import { createUniqueName } from '../helpers/versioned-client.ts'
import { productsResource } from '../version-3/products.ts'
import { v3 } from '../version-3/v3.ts'
import { define } from './adopted.ts'

const shared = await createSharedDatabase(t)
const statements = overhear(shared)
const { admin } = await testApp(t, {}, { database: statements.database })
const post = (path: string, body?: Json): Json => ({ method: 'POST', path, body })
const patch = (path: string, body: Json, if_match?: string): Json => ({
  method: 'PATCH',
  path,
  body,
  if_match,
})
const product = (fields: Json = {}): Json => ({
  ...{ sku: createUniqueName('sku'), name: 'Tea', price_amount: 1 },
  ...fields,
})
const run = (operations: Json[], headers = {}, path = '/batches') => admin.post(path, { operations }, headers)
const getResults = ({ body, text: sent }: Reply): Json[] => body.data?.results ?? t.comment(sent)

t.test('definitions of an adopter', async (t) => {
  const all = { admin: true, manager: true, member: true } as const
  const access = { list: all, read: all, create: all, replace: all, update: all, remove: all }
  const code = Text({ minLength: 1, maxLength: 20, examples: ['a'] })
  const shelves = pgTable('shelves', { ...common(), code: text().notNull() })
  const volumes = pgTable('volumes', {
    ...common(),
    shelf_id: uuid()
      .notNull()
      .references(() => shelves.id),
    next_id: uuid(),
    code: text().notNull(),
  })
  const bookings = pgTable('bookings', {
    ...common(),
    room_id: uuid().notNull(),
    starts_at: moment().notNull(),
    ends_at: moment().notNull(),
  })
  const notices = pgTable('notices', { ...common(), code: text().notNull() })
  let preparations: string[] = []
  const prepare = async ({ code: sent }: { code?: string | undefined }) => {
    preparations.push(String(sent))
    if (sent === 'wrong') throw apiError('FORBIDDEN', { message: 'It cannot be prepared' })
    return { columns: {} }
  }
  const shelf = define(
    { name: 'shelves', singular: 'Shelf', table: shelves, fields: { code } },
    {
      // Of members, the row of the parent decides.
      access: { ...access, read: { admin: true, member: [{ code: 'a' }] } },
      relations: { volumes: { to: volumes, local: 'id', foreign: 'shelf_id', many: true } },
      operations: {
        labels: {
          operationId: 'createLabel',
          summary: 'Create a label',
          description: 'Returns a label.',
          access: { admin: true },
          response: Type.Object({ id: Id(), label: code }, { title: 'Label' }),
          run: async (_store, { id, code: label }) => ({ id, label, secret: 'hidden' }),
        },
        emptyings: {
          operationId: 'emptyShelf',
          summary: 'Empty a shelf',
          description: 'Moves its volumes.',
          access: { admin: true },
          body: Type.Object(
            { to_id: Text({ format: 'uuid', examples: [exampleId] }) },
            { title: 'Emptying' },
          ),
          run: (store, current, { to_id }) => store.update(current, { ...current, code: `to ${to_id}` }),
        },
      },
    },
  )
  const volume = define(
    {
      name: 'volumes',
      singular: 'Volume',
      table: volumes,
      fields: { next_id: Type.Optional(Nullable(Id('The next'))), code },
      readOnly: { shelf_id: Id() },
    },
    { parent: { to: 'shelves', member: 'shelf_id' }, access, actions: { prepare } },
  )
  const booking = define(
    {
      name: 'bookings',
      singular: 'Booking',
      table: bookings,
      fields: { room_id: Id(), starts_at: Timestamp('The start'), ends_at: Timestamp('The end') },
    },
    {
      access,
      constraints: {
        bookings_no_overlap: { code: 'ALREADY_EXISTS', fields: ['starts_at'], message: 'The room is taken' },
      },
    },
  )
  const notice = define(
    { name: 'notices', singular: 'Notice', table: notices, fields: { code } },
    {
      access,
      bearerOnly: true,
      computed: (_row, { role }) => ({ seen_by: role }),
      schemas: {
        read: Type.Object({ id: Id(), code, seen_by: code, ...commonFields }, { title: 'Notice' }),
        create: Type.Object({ code }, { title: 'NoticeCreate' }),
        change: Type.Object({ code }, { title: 'NoticeChange' }),
      },
    },
  )

  const database = await testDatabase(t)
  for (const table of [shelves, volumes, bookings, notices]) await createTable(database, table)
  await database.run('create extension if not exists btree_gist')
  await database.run(
    `alter table bookings add constraint bookings_no_overlap
       exclude using gist (room_id with =, tstzrange(starts_at, ends_at) with &&)`,
  )
  const definitions = [...resources, shelf, volume, booking, notice]
  const { admin, person } = await testApp(t, {}, { database, resources: definitions })
  const run = (operations: Json[], headers = {}, path = '/batches') =>
    admin.post(path, { operations }, headers)

  t.test('slow work waits for a parent of the same batch', async (t) => {
    preparations = []
    const [made] = getResults(await run([post('/shelves', { code: 'a' })]))
    const path = `/shelves/${made.body.id}/volumes`
    const { client } = await person('member')
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
  })

  t.test('slow work is done once, and not after it failed', async (t) => {
    const [made] = getResults(await run([post('/shelves', { code: 'a' })]))
    const path = `/shelves/${made.body.id}/volumes`
    for (const header of [{}, createKeyHeader()]) {
      preparations = []
      const operations = [post(path, { code: 'b' }), post(path, { code: 'wrong' }), post(path, { code: 'c' })]
      const reply = await run(operations, header)
      t.equal(reply.status, 403, reply.text)
      t.same(getViolations(reply), ['operations.1 FORBIDDEN'])
      t.same(preparations, ['b', 'wrong'])
    }
    t.equal((await admin.get(path)).body.data.length, 0)

    // In the transaction, since the parent is there only then.
    preparations = []
    const volumes = ['b', 'wrong', 'c'].map((each) => post('/shelves/$0/volumes', { code: each }))
    const late = await run([post('/shelves', { code: 'a' }), ...volumes])
    t.same([late.status, getViolations(late)], [403, ['operations.2 FORBIDDEN']])
    t.same(preparations, ['b', 'wrong'])
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
      t.same(
        label.body,
        version === 1 ? { id, label: 'a' } : { id, type: 'labels', attributes: { label: 'a' } },
      )
      t.equal((emptied.body.attributes ?? emptied.body).code, `to ${id}`)
    }
    const member = await person('member')
    const refused = await member.client.post('/batches', { operations })
    t.same(getViolations(refused), ['operations.1.path FORBIDDEN', 'operations.2.path FORBIDDEN'])
    const later = await run([
      post('/shelves', { code: 'a' }),
      post('/shelves/$0/labels'),
      patch('/shelves/$1', { code: 'b' }),
    ])
    t.same(getViolations(later), ['operations.2.path INVALID_VALUE'], 'it creates no shelf')
  })

  t.test('an exclusion constraint that two operations violate is 409 at the later one', async (t) => {
    const times = { starts_at: '2026-11-21T09:00:00Z', ends_at: '2026-11-21T10:00:00Z' }
    const operations = [
      post('/bookings', { room_id: UNKNOWN_ID, ...times }),
      post('/bookings', { room_id: UNKNOWN_ID, ...times }),
    ]
    const reply = await run(operations)
    t.equal(reply.status, 409, reply.text)
    t.same(getViolations(reply), ['operations.1.body.starts_at ALREADY_EXISTS'])
    t.equal((await run(operations.slice(1))).status, 200)
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
    t.match(getResults(reply)[1].body, { code: 'b', seen_by: 'admin' })
    t.equal((await user.bearer.post('/batches', { operations }, header)).text, reply.text)
    await database.run('delete from sessions where id = $1', [user.sessionId])
    t.equal((await user.bearer.post('/batches', { operations })).status, 401)
    const rows = await database.run('select code from notices')
    t.equal(rows.length, 1)
  })
})

t.test('errors have the names of the version', async (t) => {
  const others: ResourceDefinition[] = resources.map((each) =>
    each === fixtureProducts ? productsResource : each,
  )
  const versions = [{ representation: v1 }, { representation: v3 }]
  const { admin } = await testApp(t, {}, { resources: others, versions })
  const good = { code: createUniqueName('sku'), title: 'Tea', price_amount: 1 }
  const run = (operations: Json[]) => admin.post('/v3/batches', { operations })
  t.match(getResults(await run([post('/products', good)]))[0].body, { code: good.code, title: 'Tea' })
  t.same(getViolations(await run([post('/products', good)])), ['operations.0.body.code ALREADY_EXISTS'])
  const wrong = await run([post('/products', { ...good, title: '', sku: 'a' })])
  t.same(getViolations(wrong), ['operations.0.body.sku UNKNOWN_FIELD', 'operations.0.body.title TOO_SHORT'])
})

t.test(
  'typed bodies of v2: ids in them are replaced, texts are not, and errors name the fields in them',
  async (t) => {
    const typed = (attributes: Json, id?: string, type = 'products') => ({ data: { type, id, attributes } })
    const send = (...operations: Json[]) => run(operations, {}, '/api/v2/batches')
    const reply = await send(
      post('/products', typed(product({ name: '$0' }))),
      patch('/products/$0', typed({ description: '$0' }, '$0')),
      { method: 'PUT', path: '/products/%240/', body: typed(product({ name: '$1' }), '$0') },
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
    )
    for (const [body, violation] of [
      [typed({ stock: 1 }, UNKNOWN_ID), 'operations.1.body.data.id INVALID_VALUE'],
      [typed({ stock: 'x' }, '$0'), 'operations.1.body.data.attributes.stock INVALID_TYPE'],
      [typed({ stock: 1 }, '$0', 'users'), 'operations.1.body.data.type INVALID_VALUE'],
    ] as const)
      t.same(getViolations(await send(post('/products', product()), patch('/products/$0', body))), [
        violation,
      ])
  },
)

t.test('paths and references that lead nowhere', async (t) => {
  const references = ['$1', '$01', '$99999999999', `$${'9'.repeat(400)}`].map((id) =>
    patch(`/products/${id}`, {}),
  )
  const items = ['$7', '$8', `$7${'0'.repeat(12)}`].map((product_id) => ({ product_id, quantity: 1 }))
  const paths = [
    ...['/products/%zz', '/products%2f1', '//products', '/products//', 'products', '/Products', '/batches/1'],
    'http://127.0.0.1/products/1',
  ]
  const cases: [operations: Json[], violations: string[]][] = [
    [
      [post('/products', product()), ...references],
      references.map((_, i) => `operations.${i + 1}.path INVALID_VALUE`),
    ],
    [
      [post('/orders', { items })],
      items.map((_, i) => `operations.0.body.items.${i}.product_id INVALID_VALUE`),
    ],
    [paths.map((path) => patch(path, {})), paths.map((_, i) => `operations.${i}.path NOT_FOUND`)],
    [
      [post('', {}), post(`/${'a'.repeat(500)}`, {})],
      ['operations.0.path TOO_SHORT', 'operations.1.path TOO_LONG'],
    ],
  ]
  for (const [operations, violations] of cases) {
    const reply = await run(operations)
    t.same([reply.status, getViolations(reply)], [422, violations])
  }
  for (const id of ['a'.repeat(400), '$', '$-1', '$0x', '%F0%9F%98%80']) {
    const unknown = await run([patch(`/products/${id}`, { stock: 1 })])
    t.match([unknown.status, getViolations(unknown)], [404, ['operations.0 NOT_FOUND']], id)
  }
  const many = await run([{ method: 'POST' }, ...Array.from({ length: 60 }, () => post('/nothing', {}))])
  t.same(
    many.body.error.details.map(({ field }: Json) => field),
    Array.from({ length: 50 }, (_, i) => `operations.${i}.path`),
    'the first 50, in the order of the operations',
  )
})

t.test('If-Match: lists, *, weak tags, and what REQUIRE_IF_MATCH asks for', async (t) => {
  const { admin } = await testApp(t, { REQUIRE_IF_MATCH: 'true' }, { database: shared })
  const run = (operations: Json[]) => admin.post('/batches', { operations })
  const tag = (revision: number) => `"${revision}-abcdefghijkl"`
  const first = post('/products', product())
  const good = await run([
    first,
    patch('/products/$0', { stock: 1 }, `${tag(9)}, ${tag(1)}`),
    patch('/products/$0', { stock: 2 }, '*'),
    { method: 'PUT', path: '/products/$0', body: product(), if_match: `W/${tag(3)}` },
    { method: 'DELETE', path: '/products/$0', if_match: tag(4) },
  ])
  t.equal(good.status, 200, good.text)
  const without = await run([post('/products', product()), patch('/products/$0', { stock: 1 })])
  t.same(
    [without.status, without.body.error.code, getViolations(without)],
    [428, 'PRECONDITION_REQUIRED', ['operations.1 INVALID_VALUE']],
  )
  const late = await run([post('/products', product()), patch('/products/$0', { stock: 1 }, tag(2))])
  t.same([late.status, late.headers.get('etag')], [412, null])
  const created = await run([{ ...post('/products', product()), if_match: '*' }])
  t.same(getViolations(created), ['operations.0.if_match UNKNOWN_FIELD'])
})

t.test('HIDE_FORBIDDEN hides the rows of others', async (t) => {
  const { adminId, person } = await testApp(t, { HIDE_FORBIDDEN: 'true' }, { database: shared })
  const member = await person('member')
  const operations = [patch('/users/me', { name: 'A' }), patch(`/users/${adminId}`, { name: 'B' })]
  const reply = await member.client.post('/batches', { operations })
  t.same([reply.status, getViolations(reply)], [404, ['operations.1 NOT_FOUND']])
})

t.test('a wrong current password counts once, and the last admin may pass the role on', async (t) => {
  let verified = 0
  const passwordHasher = {
    ...quickHasher,
    verify: (hashed: string, password: string) => {
      verified += 1
      return quickHasher.verify(hashed, password)
    },
  }
  const { person, anybody } = await testApp(t, {}, { passwordHasher })
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
  const grant = { grant_type: 'password', email: 'grace@example.com', password }
  t.equal((await anybody.post('/tokens', grant)).status, 401)
})

t.test(
  'results of more than 8 MiB are refused before further operations run, and nothing is written',
  async (t) => {
    // Of three bytes each: fewer than 8 Mi characters.
    const long = await admin.post('/users/me/posts', { title: 'Long', body: '€'.repeat(80_000) })
    const path = `/users/me/posts/${long.body.data.id}`
    const operations = Array.from({ length: 60 }, (_, i) => patch(path, { title: `Long ${i}` }))
    const readTitle = async () => (await admin.get(path)).body.data.title
    statements.take()
    const reply = await run(operations)
    const updates = statements.take().statements.filter((text) => text.includes('update "posts"'))
    t.same([reply.status, getViolations(reply)], [422, ['operations OUT_OF_RANGE']])
    t.ok(updates.length < 40, `${updates.length} updates`)
    t.equal(await readTitle(), 'Long')
    const minimal = await admin.post('/batches', { operations }, { prefer: 'return=minimal' })
    t.same([minimal.status, await readTitle()], [200, 'Long 59'])
  },
)

t.test(
  'a batch with an Idempotency-Key runs once; a replay is the stored response in the form of the request',
  async (t) => {
    const header = createKeyHeader()
    const operations = [post('/products', product()), post('/users/me/posts', { title: 'A', body: 'B' })]
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

t.test('without events', async (t) => {
  const { admin } = await testApp(t, { EVENTS: 'false' }, { database: shared })
  const operations = [post('/products', product()), patch('/products/$0', { stock: 1 })]
  const reply = await admin.post('/batches', { operations })
  t.equal(reply.status, 200, reply.text)
  const id = String(reply.headers.get('x-request-id'))
  t.same(
    (await readChanges(shared)).filter(({ request_id }) => request_id === id),
    [],
  )
})

t.test('batches that lock the same rows in opposite orders: each whole, or 503', async (t) => {
  const made = await admin.post('/batches', {
    operations: [post('/products', product()), post('/products', product())],
  })
  const paths = getResults(made).map(({ body }) => `/products/${body.id}`)
  const replies = await Promise.all(
    Array.from({ length: 12 }, (_, i) => {
      const ordered = i % 2 === 0 ? paths : paths.toReversed()
      return admin.post('/batches', { operations: ordered.map((path) => patch(path, { stock: i + 1 })) })
    }),
  )
  for (const { status, headers } of replies) {
    if (status !== 200) t.same([status, Number(headers.get('retry-after')) >= 1], [503, true])
  }
  t.ok(replies.some(({ status }) => status === 200))
  const [one, other] = await Promise.all(paths.map((path) => admin.get(path)))
  t.equal(one?.body.data.stock, other?.body.data.stock)
})

t.test('a batch that loses a deadlock is repeated once, then 503', async (t) => {
  let losses = 0
  let tries = 0
  const database = createDatabase({
    ...shared.$client,
    transaction: (work, options) =>
      shared.$client.transaction(
        (tx) =>
          work({
            savepoint: tx.savepoint,
            run: async (text, ...others) => {
              if (!text.includes('insert into "products"')) return tx.run(text, ...others)
              tries += 1
              if (tries > losses) return tx.run(text, ...others)
              throw new DatabaseUnavailable('A deadlock', { code: '40P01' })
            },
          }),
        options,
      ),
  })
  const { admin } = await testApp(t, {}, { database })
  for (const [times, status] of [
    [1, 200],
    [2, 503],
  ] as const) {
    const name = createUniqueName('lost')
    const operations = [post('/products', product({ name })), post('/products', product({ name }))]
    losses = times
    tries = 0
    const reply = await admin.post('/batches', { operations }, createKeyHeader())
    t.same([reply.status, tries], [status, 2], reply.text)
    const rows = await shared.run('select 1 from products where name = $1', [name])
    t.equal(rows.length, status === 200 ? 2 : 0)
    if (status === 503) t.ok(Number(reply.headers.get('retry-after')) >= 1)
  }
})

t.test('a client that leaves: all of its batch or nothing, and nothing is held', async (t) => {
  let onStatement = async () => {}
  const database = createDatabase({
    ...shared.$client,
    transaction: (work, options) =>
      shared.$client.transaction(async (tx) => {
        const result = await work({
          savepoint: tx.savepoint,
          run: async (...statement) => {
            await onStatement()
            return tx.run(...statement)
          },
        })
        await onStatement()
        return result
      }, options),
  })
  const { app, admin, port } = await testApp(t, {}, { database })
  const closed: Deferred[] = []
  app.server.on('connection', (socket) => {
    const each = createDeferred()
    closed.push(each)
    socket.once('close', each.resolve)
  })
  const name = createUniqueName('left')
  const operations = [
    ...[post('/products', product({ name })), post('/products', product({ name }))],
    ...[patch('/users/me', { name }), post('/products', product({ name }))],
  ]
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
    counts.push((await shared.run('select 1 from products where name = $1', [name])).length)
    onStatement = async () => {}
  }
  t.same(counts.slice(0, -1), counts.slice(0, -1).fill(0), `${counts.length} moments`)
  t.ok(counts.length >= 4)
  t.equal((await admin.post('/batches', { operations: [post('/products', product())] })).status, 200)
})
