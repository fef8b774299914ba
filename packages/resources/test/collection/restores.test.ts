/** `POST /{collection}/{id}/restores` creates a deleted resource again, from the event of its deletion. */
import { Type } from '@sinclair/typebox'
import { sql } from 'drizzle-orm'
import {
  boolean,
  date,
  jsonb,
  numeric,
  pgTable,
  text as plainText,
  uniqueIndex,
  uuid,
} from 'drizzle-orm/pg-core'
import t, { type Test } from 'tap'
import { resources } from '../../../../src/resources.ts'
import { CALLER } from '../../../api/src/rules/rules.ts'
import { Id, Nullable, Text, Timestamp } from '../../../api/src/schemas/types.ts'
import { common, folded, integer, moment, text } from '../../../database/src/columns.ts'
import { users } from '../../../database/src/user-tables.ts'
import { type Client, type Json, type Reply, testApp, UNKNOWN_ID } from '../../../testing/helpers/app.ts'
import { createSharedDatabase, testDatabase } from '../../../testing/helpers/database.ts'
import { readChanges, stopEventWork } from '../../../testing/helpers/events.ts'
import { listViolations } from '../../../testing/helpers/replies.ts'
import { createTable } from '../../../testing/helpers/rows.ts'
import { serve, withChanges } from '../../../testing/helpers/serve.ts'
import { createUniqueName, newProduct, VERSIONS } from '../../../testing/helpers/versioned-client.ts'
import { collection } from '../../src/definition/definition.ts'
import { define } from './adopted.ts'

const notes = pgTable(
  'restored_notes',
  {
    ...common(),
    owner_id: uuid().references(() => users.id),
    code: text().notNull(),
    secret: text(),
    price: numeric({ precision: 12, scale: 2 }).notNull().default('0'),
    size: integer().notNull().default(0),
    tags: plainText().array().notNull(),
    extra: jsonb(),
    due_on: date(),
    seen_at: moment(),
    is_open: boolean(),
    last_digit: integer().generatedAlwaysAs(sql`size % 10`),
    search: folded(),
  },
  (table) => [uniqueIndex('notes_code').on(table.code), uniqueIndex('notes_secret').on(table.secret)],
)

const line = (example: string) =>
  Text({ minLength: 1, maxLength: 50, description: 'A text', examples: [example] })
const fields = {
  owner_id: Nullable(Id('The owner')),
  code: line('a'),
  secret: Nullable(line('b')),
  price: Type.String({ description: 'A decimal', examples: ['1.00'], default: '0.00' }),
  size: Type.Integer({ description: 'A number', examples: [1], default: 0 }),
  tags: Type.Array(line('c'), { description: 'Texts', examples: [['c']], default: [] }),
  extra: Nullable(
    Type.Object({ a: Type.Optional(Type.Integer({ description: 'A number', examples: [1] })) }),
  ),
  due_on: Nullable(Type.String({ description: 'A date', examples: ['2026-11-21'] })),
  seen_at: Nullable(Timestamp('A time')),
  is_open: Nullable(Type.Boolean({ description: 'A state', examples: [true] })),
}
const staff = { admin: true, manager: true } as const
const notesResource = define(
  {
    ...{ name: 'notes', singular: 'Note', table: notes, fields },
    readOnly: { last_digit: Nullable(Type.Integer({ description: 'A digit', examples: [1] })) },
  },
  {
    search: ['code'],
    access: {
      ...{
        list: staff,
        create: { admin: true, member: true },
        update: staff,
        remove: { ...staff, member: true },
      },
      read: { ...staff, member: [{ owner_id: CALLER }, { size: 7 }, { size: 8 }] },
    },
    operations: {
      restores: { access: { admin: true, manager: true, member: [{ owner_id: CALLER }, { size: 8 }] } },
    },
    isRestorable: true,
    fields: { secret: { read: ['admin'] }, last_digit: {} },
  },
)

const shared = await createSharedDatabase(t)
await createTable(shared, notes)
await shared.run('alter table restored_notes drop column last_digit')
await shared.run(
  'alter table restored_notes add column last_digit bigint generated always as (size % 10) stored',
)
for (const name of ['code', 'secret'])
  await shared.run(`create unique index notes_${name} on restored_notes (${name})`)
const { admin, adminId, anybody, app, person } = await testApp(
  t,
  {},
  { database: shared, resources: [...resources, serve(notesResource)] },
)
const create = async (path: string, body: Json, by = admin): Promise<Json> => {
  const reply = await by.post(path, body)
  if (reply.status !== 201) throw new Error(reply.text)
  return reply.body.data
}
const newDeleted = async (path: string, body: Json): Promise<Json> => {
  const made = await create(path, body)
  const { status, text: reply } = await admin.delete(`${path}/${made.id}`)
  if (status !== 204) throw new Error(reply)
  return made
}
const restore = (path: string, id: string, by: Client = admin, headers = {}) =>
  by.call('POST', `${path}/${id}/restores`, { headers })
const getError = ({ status, body }: Reply) => [status, body.error?.code]
const newUser = () => create('/users', { name: 'Ada', email: `${createUniqueName('ada')}@example.com` })

t.test('the resource is as it was, with a new time and revision', async (t) => {
  const user = await newUser()
  const bodies: Record<string, Json> = {
    '/products': newProduct({ description: 'Ä "b"\n', stock: 3, status: 'active' }),
    '/user-profiles': { user_id: user.id, bio: 'Long', time_zone: 'Europe/Berlin' },
    [`/users/${adminId}/posts`]: { title: 'A', body: 'B', status: 'published' },
    '/users/me/posts': { title: 'A', body: 'B' },
  }
  for (const version of VERSIONS)
    for (const [path, body] of Object.entries(bodies)) {
      const form = `/v${version}`
      const made = (await admin.post(`${form}${path}`, body)).body.data
      const read = await admin.get(`${form}${path}/${made.id}`)
      await admin.delete(`${form}${path}/${made.id}`)
      const reply = await admin.post(`${form}${path}/${made.id}/restores`, {})
      t.equal(reply.status, 201, reply.text)
      const { updated_at, ...before } = read.body.data.attributes ?? read.body.data
      const { updated_at: now, ...after } = reply.body.data.attributes ?? reply.body.data
      t.same(after, before)
      t.equal(reply.body.data.id, made.id)
      t.ok(now > updated_at)
      const location = `${form}${path.replace('/me/', `/${adminId}/`)}/${made.id}`
      t.equal(reply.headers.get('location'), location)
      const again = await admin.get(location)
      t.same(again.body.data, reply.body.data)
      t.equal(again.headers.get('etag'), reply.headers.get('etag'))
      const revision = (tag: string | null) => Number(tag?.match(/^"(\d+)-/)?.[1])
      t.equal(revision(reply.headers.get('etag')), revision(read.headers.get('etag')) + 2)
      const changes = (await readChanges(shared, made.id)).map(({ type, revision: at }) => [
        type.split('.')[1],
        at,
      ])
      t.same(changes.slice(-2), [
        ['deleted', revision(reply.headers.get('etag')) - 1],
        ['created', revision(reply.headers.get('etag'))],
      ])
      t.equal((await admin.delete(location, { 'if-match': String(again.headers.get('etag')) })).status, 204)
    }
})

t.test('values of all types are as they were', async (t) => {
  const values = {
    ...{ owner_id: adminId, code: createUniqueName('code'), secret: createUniqueName('secret') },
    ...{ price: '1234567890.12', size: 9_007_199_254_740_991, tags: ['a"b', 'c,d', '{}'], extra: { a: 1 } },
    ...{ due_on: '2026-02-28', seen_at: '2026-11-21T09:30:00.123Z', is_open: false },
  }
  const note = await newDeleted('/notes', values)
  const restored = await restore('/notes', note.id)
  t.match(restored.body.data, { ...values, last_digit: 1 })
  const nothing = await newDeleted('/notes', { code: createUniqueName('code') })
  const { updated_at, ...empty } = (await restore('/notes', nothing.id)).body.data
  t.same({ ...empty, updated_at: nothing.updated_at }, nothing)
  t.ok(updated_at > nothing.updated_at)
  const [row] = await shared.run('select search from restored_notes where id = $1', [note.id])
  t.match(row?.search, values.code, 'it is found by search')
})

t.test(
  'a deletion is found before and after its event has a position, and only the last one counts',
  async (t) => {
    await stopEventWork(app)
    const { id } = await newDeleted('/products', newProduct())
    const isPlaced = async () => {
      const [row] = await shared.run('select count(*)::int as count from events where resource_id = $1', [id])
      return Number(row?.count)
    }
    t.equal(await isPlaced(), 0)
    t.equal((await restore('/products', id)).status, 201)
    await app.events.assignAll()
    t.ok((await isPlaced()) > 0)
    t.equal((await admin.patch(`/products/${id}`, { stock: 77 })).status, 200)
    await admin.delete(`/products/${id}`)
    t.equal((await restore('/products', id)).body.data.stock, 77, 'a deletion in the outbox is later')
    await admin.delete(`/products/${id}`)
    await app.events.assignAll()
    t.equal((await restore('/products', id)).body.data.stock, 77)
  },
)

t.test(
  '409 if it exists or a unique value was taken, 422 and 404 if what it refers to is gone',
  async (t) => {
    const product = newProduct()
    const { id } = await newDeleted('/products', product)
    const { id: other } = await create('/products', product)
    const taken = await restore('/products', id)
    t.same([...getError(taken), ...listViolations(taken)], [409, 'RESOURCE_CONFLICT', 'sku ALREADY_EXISTS'])
    t.same(getError(await restore('/products', other)), [409, 'RESOURCE_CONFLICT'])
    await admin.delete(`/products/${other}`)
    t.equal((await restore('/products', id)).status, 201)
    t.same(getError(await restore('/products', id)), [409, 'RESOURCE_CONFLICT'])

    const user = await newUser()
    const profile = await newDeleted('/user-profiles', { user_id: user.id })
    const path = `/users/${user.id}/posts`
    const post = await newDeleted(path, { title: 'A', body: 'B' })
    t.equal((await restore(`/users/${adminId}/posts`, post.id)).status, 404, 'of another parent')
    t.equal((await restore(path, post.id)).status, 201)
    t.equal((await restore(`/users/${adminId}/posts`, post.id)).status, 404, 'of another parent')
    t.equal((await admin.delete(`/users/${user.id}`)).status, 204)
    t.same(getError(await restore(path, post.id)), [404, 'RESOURCE_NOT_FOUND'])
    const orphan = await restore('/user-profiles', profile.id)
    t.same([orphan.status, ...listViolations(orphan)], [422, 'user_id NOT_FOUND'])
    t.equal((await restore('/products', UNKNOWN_ID)).status, 404)
    t.equal((await restore('/products', 'none')).status, 404)
  },
)

t.test('twice at once: one is restored, the other is 409', async (t) => {
  for (let i = 0; i < 10; i++) {
    const { id } = await newDeleted('/products', newProduct())
    const replies = await Promise.all([
      restore('/products', id),
      restore('/products', id),
      restore('/products', id),
    ])
    t.same(replies.map(({ status }) => status).sort(), [201, 409, 409])
    const created = (await readChanges(shared, id)).filter(({ type }) => type.endsWith('created'))
    t.equal(created.length, 2)
  }
})

t.test('the body is empty or {}, and a retry with an Idempotency-Key has the stored response', async (t) => {
  const { id } = await newDeleted('/products', newProduct())
  const path = `/products/${id}/restores`
  const unknown = await admin.post(path, { stock: 1 })
  t.same([unknown.status, ...listViolations(unknown)], [422, 'stock UNKNOWN_FIELD'])
  t.equal((await admin.post(path, [])).status, 400)
  const key = { 'idempotency-key': createUniqueName('key') }
  const first = await restore('/products', id, admin, key)
  t.equal(first.status, 201, first.text)
  const retry = await admin.post(path, {}, key)
  t.same([retry.status, retry.body], [201, first.body])
  t.equal(retry.headers.get('idempotency-replayed'), 'true')
  t.equal(retry.headers.get('location'), first.headers.get('location'))
  t.equal((await admin.patch(`/products/${id}`, { stock: 1 })).status, 200)
  t.same((await restore('/products', id, admin, key)).body, first.body)
})

t.test('a stored response is sent only while the caller may read the resource or its deletion', async (t) => {
  const { id: ownerId, client: owner } = await person('member')
  const { id } = await newDeleted('/notes', { code: createUniqueName('code'), owner_id: ownerId })
  const key = { 'idempotency-key': createUniqueName('key') }
  const restoreOnce = () => restore('/notes', id, owner, key)
  const remove = async () => t.equal((await admin.delete(`/notes/${id}`)).status, 204)
  const first = await restoreOnce()
  t.equal(first.status, 201, first.text)
  await remove()
  t.same((await restoreOnce()).body, first.body, 'the own resource, deleted again')
  t.equal((await restore('/notes', id)).status, 201)
  t.equal((await admin.patch(`/notes/${id}`, { owner_id: adminId })).status, 200)
  t.same(getError(await restoreOnce()), [403, 'FORBIDDEN'], 'a resource of others')
  await remove()
  t.same(getError(await restoreOnce()), [404, 'RESOURCE_NOT_FOUND'], 'a resource of others, deleted')
})

t.test('a dry run restores nothing', async (t) => {
  const { id, sku } = await newDeleted('/products', newProduct())
  const trial = await admin.post(`/products/${id}/restores?dry_run=true`, {})
  t.match([trial.status, trial.body.data.sku, trial.body.meta.dry_run], [201, sku, true])
  t.same([trial.headers.get('etag'), trial.headers.get('location')], [null, null])
  t.equal((await admin.get(`/products/${id}`)).status, 404)
})

t.test('admins and managers restore, with the scope to write', async (t) => {
  const { id } = await newDeleted('/products', newProduct())
  const { id: post } = await newDeleted('/users/me/posts', { title: 'A', body: 'B' })
  const member = await person('member')
  const own = await create('/users/me/posts', { title: 'A', body: 'B' }, member.client)
  await member.client.delete(`/users/me/posts/${own.id}`)
  t.same(getError(await restore('/users/me/posts', own.id, member.client)), [403, 'FORBIDDEN'])
  t.same(getError(await restore('/products', id, member.client)), [403, 'FORBIDDEN'])
  t.same(getError(await restore('/products', UNKNOWN_ID, member.client)), [403, 'FORBIDDEN'])
  t.equal((await restore('/products', id, anybody)).status, 401)
  const { client: reader } = await person('admin', ['products:read', 'events:read'])
  t.equal((await restore('/products', id, reader)).status, 403)
  const { client: writer } = await person('manager', ['products:write'])
  t.equal((await restore('/products', id, writer)).status, 201, 'without events:read')
  const { client: manager } = await person('manager')
  t.equal((await restore(`/users/${adminId}/posts`, post, manager)).status, 201)
})

t.test('who may delete but not create restores nothing, and rules hold for the row', async (t) => {
  const { client: manager } = await person('manager')
  const { id: memberId, client: member } = await person('member')
  const own = await newDeleted('/notes', { code: createUniqueName('code'), owner_id: memberId })
  const hidden = await newDeleted('/notes', { code: createUniqueName('code') })
  const seen = await newDeleted('/notes', { code: createUniqueName('code'), size: 7 })
  const kept = await create('/notes', { code: createUniqueName('code') })
  t.same(getError(await restore('/notes', own.id, manager)), [403, 'FORBIDDEN'])
  t.same(getError(await restore('/notes', hidden.id, member)), [404, 'RESOURCE_NOT_FOUND'], 'not readable')
  t.same(getError(await restore('/notes', seen.id, member)), [403, 'FORBIDDEN'], 'readable, not restorable')
  t.same(getError(await restore('/notes', kept.id, member)), [403, 'FORBIDDEN'], 'exists, not readable')
  t.equal((await restore('/notes', own.id, member)).status, 201)
  const ofAdmin = await newDeleted('/notes', { code: createUniqueName('code'), size: 8, owner_id: adminId })
  const unread = await restore('/notes', ofAdmin.id, member)
  t.same(
    [unread.status, ...listViolations(unread)],
    [422, 'owner_id NOT_FOUND'],
    'refers to what is not readable',
  )
  t.equal((await restore('/notes', ofAdmin.id)).status, 201)
})

t.test('with HIDE_FORBIDDEN, a row that may not be restored is like one that never was', async (t) => {
  const overrides = { database: shared, resources: [...resources, serve(notesResource)] }
  const { person: hiddenFrom } = await testApp(t, { HIDE_FORBIDDEN: 'true' }, overrides)
  const { client: member } = await hiddenFrom('member')
  const withCode = (values = {}) => ({ code: createUniqueName('code'), ...values })
  const unknown = await restore('/notes', UNKNOWN_ID, member)
  for (const [name, { id }] of Object.entries({
    'deleted, not readable': await newDeleted('/notes', withCode()),
    'deleted, readable, not restorable': await newDeleted('/notes', withCode({ size: 7 })),
    'exists, not readable': await create('/notes', withCode()),
    'exists, readable, not restorable': await create('/notes', withCode({ size: 7 })),
  })) {
    const { status, body } = await restore('/notes', id, member)
    t.equal(status, 404, name)
    // The same bytes, but for the id that the client sent and that of the request.
    t.equal(
      JSON.stringify({ ...body.error, request_id: '' }),
      JSON.stringify({ ...unknown.body.error, request_id: '' }).replaceAll(UNKNOWN_ID, id),
      name,
    )
  }
})

t.test('a field that the role may not read is restored, and shown to no one', async (t) => {
  const { id: memberId, client: member } = await person('member')
  const secret = createUniqueName('secret')
  const note = await newDeleted('/notes', { code: createUniqueName('code'), secret, owner_id: memberId })
  const other = await create('/notes', { code: createUniqueName('code'), secret })
  const taken = await restore('/notes', note.id, member)
  t.same([...getError(taken), taken.body.error.details], [409, 'RESOURCE_CONFLICT', undefined])
  t.notMatch(taken.text, /secret/)
  t.same(listViolations(await restore('/notes', note.id)), ['secret ALREADY_EXISTS'])
  await admin.delete(`/notes/${other.id}`)
  const restored = await restore('/notes', note.id, member)
  t.equal(restored.status, 201, restored.text)
  t.notMatch(restored.text, /secret/)
  t.equal((await admin.get(`/notes/${note.id}`)).body.data.secret, secret)
})

/** Makes the events of a resource older. */
async function age(id: string, days: number) {
  for (const table of ['events', 'outbox'])
    await shared.run(
      `update ${table} set created_at = created_at - make_interval(days => $2) where resource_id = $1`,
      [id, days],
    )
}

t.test('404 after the retention of events, and without events', async (t) => {
  const kept = await newDeleted('/products', newProduct())
  await age(kept.id, 89)
  const lost = await newDeleted('/products', newProduct())
  await age(lost.id, 91)
  t.same(getError(await restore('/products', lost.id)), [404, 'RESOURCE_NOT_FOUND'])
  const all = await testApp(t, { EVENTS_RETENTION_DAYS: '0' }, { database: shared })
  t.equal((await restore('/products', lost.id, all.admin)).status, 201)
  const without = await testApp(t, { EVENTS: 'false' }, { database: shared })
  t.same(getError(await restore('/products', kept.id, without.admin)), [404, 'RESOURCE_NOT_FOUND'])
  t.equal((await restore('/products', kept.id)).status, 201)
})

t.test('it is in no batch, and users, orders and credentials have none', async (t) => {
  const { id } = await newDeleted('/products', newProduct())
  const operations = [{ method: 'POST', path: `/products/${id}/restores` }]
  t.same(listViolations(await admin.post('/batches', { operations })), ['operations.0.path NOT_FOUND'])
  for (const path of ['/users', '/orders', '/api-keys', '/sessions', '/webhook-endpoints'])
    t.equal((await restore(path, id)).status, 404, path)
  const wrong = await admin.get(`/products/${id}/restores`)
  t.same([wrong.status, wrong.headers.get('allow')], [405, 'OPTIONS, POST'])
})

/** Returns the error of a start with a resource. */
async function startWith(t: Test, changes: Json) {
  const database = await testDatabase(t)
  return testApp(
    t,
    {},
    { database, resources: [...resources, withChanges(serve(notesResource), changes)] },
  ).then(
    () => 'it starts',
    (error) => String(error),
  )
}

t.test('the start checks that events have all of a row', async (t) => {
  const { owner_id: _, ...shown } = notesResource.schemas.read.properties
  const schemas = { ...notesResource.schemas, read: Type.Object(shown, { title: 'Note' }) }
  t.match(
    await startWith(t, { schemas, access: { create: staff, remove: staff } }),
    /lose the columns owner_id/,
  )
  t.match(await startWith(t, { isRecorded: false }), /notes: without events/)
})

t.test(
  'a collection names the roles in its access; those that may not create or delete have none',
  async (t) => {
    const { isRestorable, operations } = collection({
      ...{ table: notes, description: 'Notes', schemas: notesResource.schemas },
      access: {
        create: { admin: true },
        remove: staff,
        restore: { ...staff, member: [{ owner_id: CALLER }] },
      },
      computed: () => ({}),
    } as Json)
    t.same([isRestorable, operations], [true, { restores: { access: { admin: true } } }])
  },
)
