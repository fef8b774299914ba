/** The client package reads and writes every collection: single resources, lists by page, batches and imports. */
import t from 'tap'
import { ADMIN_KEY, testApp, UNKNOWN_ID } from '../../testing/helpers/app.ts'
import { createRecordedFetch, type SentRequest } from '../../testing/helpers/recorded-fetch.ts'
import { createUniqueName } from '../../testing/helpers/versioned-client.ts'
import {
  ApiError,
  AuthenticationError,
  ConflictError,
  createClient,
  NotFoundError,
  PermissionError,
  PreconditionFailedError,
  type Tokens,
  ValidationError,
} from '../src/index.ts'

const app = await testApp(t)
const { base: baseUrl, database } = app
const client = createClient({ baseUrl, apiKey: ADMIN_KEY })
const { users, userProfiles } = client

const createBody = (name = 'Ada') => ({ name, email: `${createUniqueName('ada')}@example.com` })
/** Returns the next name of a user whose name is a number. */
const increase = (name: string, by = 1) => ({ name: String(Number(name) + by) })
const catchError = (call: () => PromiseLike<unknown>) =>
  Promise.resolve(call()).catch((error: unknown) => error)

/** Creates a client whose requests are recorded. */
function record(isLost?: (request: SentRequest, index: number) => boolean, options = {}) {
  const recorded = createRecordedFetch(isLost)
  const client = createClient({ baseUrl, apiKey: ADMIN_KEY, fetch: recorded.fetch, ...options })
  return { ...recorded, client }
}

const COUNT = 250
/** No other users of this file are managers. */
const managers = { role: 'manager' } as const
await database.run(
  `insert into users (id, name, email, role, status, search)
   select gen_random_uuid(), 'Ada ' || to_char(n, 'FM000'), 'ada-' || n || '@example.com', 'manager', 'active', 'ada'
   from generate_series(1, $1::int) n`,
  [COUNT],
)

t.test('a resource is created, read, replaced, updated and deleted', async (t) => {
  const response = await users.create(createBody()).withResponse()
  t.match(response, { status: 201, etag: /^"1-/, requestId: /./ })
  const { id } = response.data
  t.same(await users.get(id), response.data)
  t.equal((await users.replace(id, createBody('Ada King'))).name, 'Ada King')
  t.equal((await users.update(id, { status: 'inactive' })).status, 'inactive')
  t.equal(await users.delete(id), undefined)
  await t.rejects(users.get(id), NotFoundError)
  const { error, response: other } = await client.http.GET('/api/v1/users/{id}', { params: { path: { id } } })
  t.same([other.status, error?.error.code], [404, 'RESOURCE_NOT_FOUND'], 'every path is reachable')
})

t.test('a comma of a value in a list is none between values', async (t) => {
  const { client: recorded, sent } = record()
  await catchError(() => recorded.events.list({ resource_id: ['a,b', 'c\\d'] }).page())
  t.match(sent[0]?.path, 'resource_id=a%5C%2Cb,c%5C%5Cd')
})

t.test('figures of a list come in groups', async (t) => {
  const groups = await users.aggregate({
    measures: ['count', 'max:created_at'],
    group_by: ['role'],
    ...managers,
  })
  t.match(groups, [{ group: { role: 'manager' }, count: COUNT, max: { created_at: /Z$/ } }])
  const [all] = await users.aggregate({ measures: ['count'], search: 'nobody' })
  t.same(all, { group: {}, count: 0 })
  const { posts } = users
  t.same(await posts('me').aggregate({ measures: ['count'], group_by: ['status'] }), [])
})

t.test('deliveries belong to an endpoint, and `me` is the caller', async (t) => {
  const { id: userId, token: accessToken, sessionId } = await app.person('admin')
  const renewAt = Number.POSITIVE_INFINITY
  const tokens: Tokens = { accessToken, refreshToken: '', sessionId, userId, renewAt }
  const { users, webhookEndpoints } = createClient({
    baseUrl,
    tokenStore: { get: () => tokens, set: () => undefined },
  })
  t.equal((await users.get('me')).id, userId)
  const { id } = await webhookEndpoints.create({ url: 'https://example.com/', event_types: ['users.*'] })
  const deliveries = webhookEndpoints.deliveries(id)
  t.same(await deliveries.list().toArray(), [])
  await t.rejects(deliveries.create({ event_id: UNKNOWN_ID }), ValidationError)
  await t.rejects(webhookEndpoints.deliveries(UNKNOWN_ID).list().page(), NotFoundError)
})

t.test('`include` adds related resources, and `fields` leaves fields out', async (t) => {
  const { id } = await users.create(createBody())
  const profile = await userProfiles.create({ user_id: id, display_name: 'Ada' })
  const user = await users.get(id, { include: ['profile'], fields: ['name'] })
  t.same(user, { id, name: 'Ada', profile })
  const [listed] = await userProfiles.list({ user_id: id, include: ['user'] }).toArray()
  t.equal(listed?.user?.id, id)
})

t.test('a write with an outdated entity tag fails with PreconditionFailedError', async (t) => {
  const { data, etag } = await users.create(createBody()).withResponse()
  const ifMatch = etag ?? ''
  await users.update(data.id, { name: 'first' }, { ifMatch })
  for (const call of [
    () => users.update(data.id, { name: 'second' }, { ifMatch }),
    () => users.replace(data.id, createBody(), { ifMatch }),
    () => users.delete(data.id, { ifMatch }),
  ])
    await t.rejects(async () => call(), PreconditionFailedError)
  t.equal((await users.get(data.id)).name, 'first')
})

t.test('edit writes again if the resource was changed in between', async (t) => {
  const { id } = await users.create(createBody('10'))
  const { client: other, summarize } = record()
  let edits = 0
  const edited = await other.users.edit(id, async ({ name }) => {
    edits += 1
    if (edits <= 2) await users.edit(id, (current) => increase(current.name, 100))
    return increase(name)
  })
  t.equal(edited.name, '211')
  const path = `/users/${id}`
  const lost = [`GET ${path} 200`, `PATCH ${path} 412`]
  t.same(summarize(), [...lost, ...lost, `GET ${path} 200`, `PATCH ${path} 200`])

  await Promise.all(Array.from({ length: 20 }, () => users.edit(id, ({ name }) => increase(name))))
  t.equal((await users.get(id)).name, '231', 'editors that collide all succeed')

  t.intercept(Math, 'random', { value: () => 0 })
  const endless = other.users.edit(id, async ({ name }) => {
    await users.update(id, increase(name, 100))
    return increase(name)
  })
  await t.rejects(endless, PreconditionFailedError, 'gives up in the end')
  const { name } = await users.get(id)
  t.equal((await users.edit(id, () => undefined)).name, name, 'undefined changes nothing')
})

t.test('an error has the class of its status, its code, its fields and its request id', async (t) => {
  const ada = await users.create(createBody())
  const member = createClient({ baseUrl, apiKey: (await app.person('member')).key })
  const stranger = createClient({ baseUrl, apiKey: 'wrong' })
  const invalid = { status: 422, name: 'ValidationError', code: 'VALIDATION_ERROR' }
  for (const [call, type, expected] of [
    [
      () => users.create({ name: 'Ada', email: 'ada' }),
      ValidationError,
      { ...invalid, fields: [{ field: 'email', code: 'INVALID_FORMAT' }] },
    ],
    [
      () => users.create({ ...createBody(), email: ada.email }),
      ConflictError,
      { fields: [{ field: 'email', code: 'ALREADY_EXISTS' }] },
    ],
    [() => users.get(UNKNOWN_ID), NotFoundError, { status: 404, code: 'RESOURCE_NOT_FOUND' }],
    [() => member.users.create(createBody()), PermissionError, { status: 403 }],
    [() => stranger.users.get('me'), AuthenticationError, { status: 401 }],
    [() => users.list({ limit: 1000 }).page(), ApiError, { name: 'BadRequestError' }],
  ] as const) {
    const error = await catchError(call)
    t.type(error, type)
    t.type(error, ApiError)
    t.match(error, { ...expected, requestId: String })
  }
})

t.test('with a cache, the server confirms a response that the client has', async (t) => {
  const { id } = await users.create(createBody())
  const { client: cached, sent } = record(undefined, { cacheSize: 2 })
  const first = await cached.users.get(id)
  first.name = 'changed by the caller'
  const second = await cached.users.get(id).withResponse()
  t.match(second, { data: { name: 'Ada' }, status: 200, etag: /^"1-/, requestId: /./ })
  await users.update(id, { name: 'Ada King' })
  for (let i = 0; i < 2; i++) t.equal((await cached.users.get(id)).name, 'Ada King')
  t.same(
    sent.map(({ status }) => status),
    [200, 304, 200, 304],
  )
  for (const fields of [['name'], ['email']] as const) await cached.users.get(id, { fields })
  await cached.users.get(id)
  t.equal(sent.at(-1)?.status, 200, 'the least recently used response was removed')
})

t.test('iterating yields each resource of all pages once, in order', async (t) => {
  const { client, sent } = record()
  const names: string[] = []
  const list = client.users.list({ ...managers, sort: ['name'], fields: ['name'] })
  t.equal(sent.length, 0, 'no page is requested before it is needed')
  for await (const { name } of list) names.push(name)
  t.same(
    names,
    Array.from({ length: COUNT }, (_, i) => `Ada ${String(i + 1).padStart(3, '0')}`),
  )
  t.equal(sent.length, 3, 'in pages of 100')
  t.equal((await client.users.list({ ...managers, limit: 50, fields: ['id'] }).toArray()).length, COUNT)
  t.equal(sent.length, 3 + 5, 'or of `limit`')
  // @ts-expect-error a program without exactOptionalPropertyTypes may pass undefined
  await client.users.list({ ...managers, limit: undefined }).toArray()
  t.equal(sent.length, 3 + 5 + 3, 'an undefined `limit` is none')
  let count = 0
  for await (const _ of client.users.list({ limit: 10 })) if (++count === 10) break
  t.equal(sent.length, 3 + 5 + 3 + 1)

  const controller = new AbortController()
  const read = async () => {
    for await (const _ of client.users.list({ limit: 10 }, { signal: controller.signal }))
      controller.abort(new Error('enough'))
  }
  await t.rejects(read(), { message: 'enough' }, 'a list that is aborted ends with the reason of the signal')
})

t.test('a filter takes one value or several', async (t) => {
  const { client, sent } = record()
  const email = ['ada-9@example.com', 'ada-3@example.com', 'no@example.com']
  const found = await client.users.list({ email, sort: ['name'] }).toArray()
  t.match(found, [{ name: 'Ada 003' }, { name: 'Ada 009' }])
  t.match(decodeURIComponent(sent[0]?.path ?? ''), `email=${email.join()}`)
  const states = { ...managers, status: ['active', 'inactive'] } as const
  t.equal((await client.users.list(states).toArray()).length, COUNT)
})

t.test('page() returns one page, and next() the one after it, by cursor or by number', async (t) => {
  const first = await users.list({ ...managers, sort: ['email'], limit: 100 }).page()
  t.equal(first.data.length, 100)
  t.match(first.pagination, { has_more: true, cursor: String })
  const third = await (await first.next())?.next()
  t.same([third?.data.length, third?.hasNext, await third?.next()], [50, false, null])
  t.equal((await users.list().page()).data.length, 20, 'the page size of the server')

  const second = await users.list({ ...managers, page: 2, limit: 100 }).page()
  t.same(second.pagination, { page: 2, limit: 100, total: COUNT, total_pages: 3 })
  const last = await second.next()
  t.match(last?.pagination, { page: 3 })
  t.equal(await last?.next(), null)
})

t.test('the results of a batch are those of its operations, in their order', async (t) => {
  const known = await users.create(createBody())
  const ada = users.batch.create(createBody())
  const profile = userProfiles.batch.create({ user_id: ada.id, display_name: ada.id })
  const response = await client
    .batch([
      ada,
      profile,
      userProfiles.batch.update(profile.id, { bio: `About ${ada.id}.` }),
      users.batch.replace(ada.id, createBody('Ada King')),
      { method: 'PATCH', path: '/users/me', body: { name: 'Admin' } },
      users.batch.delete(known.id),
    ])
    .withResponse()
  t.match(response, { status: 200, requestId: /./ })
  const [created, about, changed, replaced, me, removed] = response.data
  t.equal(about.user_id, created.id)
  t.equal(changed.bio, `About ${ada.id}.`, 'part of a text is no reference')
  t.match([replaced, me, removed], [{ id: created.id, name: 'Ada King' }, { name: 'Admin' }, undefined])
  t.same(await users.get(created.id), replaced)
  await t.rejects(users.get(known.id), NotFoundError)
  const names = ['a', 'b', 'c']
  const all = await client.batch(names.map((name) => users.batch.create(createBody(name))))
  t.same(
    all.map(({ name }) => name),
    names,
    'an array has results of one type',
  )
})

t.test('an error of a batch has what is wrong with each operation', async (t) => {
  const taken = createBody()
  await users.create(taken)
  const wrong = { method: 'POST', path: '/nothing', body: {} } as const
  for (const [call, type, operations] of [
    [
      () => client.batch([users.batch.create(createBody('')), users.batch.create(createBody()), wrong]),
      ValidationError,
      [
        [0, [{ field: 'body.name', code: 'TOO_SHORT' }]],
        [2, [{ field: 'path', code: 'NOT_FOUND' }]],
      ],
    ],
    [
      () => client.batch([users.batch.create(createBody()), users.batch.create(taken)]),
      ConflictError,
      [[1, [{ field: 'body.email', code: 'ALREADY_EXISTS' }]]],
    ],
    [
      () => client.batch([users.batch.delete(UNKNOWN_ID)]),
      NotFoundError,
      [[0, [{ field: '', code: 'NOT_FOUND' }]]],
    ],
  ] as const) {
    const error = await catchError(call)
    t.type(error, type)
    if (error instanceof ApiError) t.match([...error.operations], operations)
  }
})

t.test('a reference to no earlier creation is a TypeError, and sends nothing', async (t) => {
  const { client: own, sent } = record()
  const ada = own.users.batch.create(createBody())
  const profile = own.userProfiles.batch.create({ user_id: ada.id })
  for (const operations of [[profile], [profile, ada]]) {
    await t.rejects(own.batch(operations), { name: 'TypeError', message: /^Operation 0 refers to/ })
  }
  t.throws(() => own.users.batch.delete(''), TypeError)
  t.same(sent, [])
})

t.test('a batch whose response was lost runs once', async (t) => {
  const { client: own, sent } = record((_request, index) => index === 0)
  const body = createBody()
  const [created] = await own.batch([own.users.batch.create(body)])
  t.equal(created.email, body.email)
  const keys = sent.map(({ headers }) => headers.get('idempotency-key'))
  t.match(keys, [/./, keys[0]])
  t.equal(keys.length, 2)
})

t.test('a dry run writes nothing, and sends no key', async (t) => {
  const { client: own, sent } = record()
  const dryRun = { dryRun: true } as const
  const body = createBody()
  const trial = await own.users.create(body, dryRun).withResponse()
  t.match(trial, { data: { email: body.email }, etag: null, meta: { dry_run: true } })
  const { id } = await own.users.create(body)
  t.equal((await own.users.update(id, { name: 'Grace' }, dryRun)).name, 'Grace')
  const [batched] = await own.batch([own.users.batch.update(id, { name: 'Grace' })], dryRun)
  t.equal(batched.name, 'Grace')
  const removed = await own.users.delete(id, dryRun).withResponse()
  t.match(removed, { status: 200, data: null })
  const query = { dry_run: true }
  const plain = await own.http.PATCH('/api/v1/users/{id}', {
    params: { path: { id }, query },
    body: { name: 'Grace' },
  })
  t.equal(plain.data?.data.name, 'Grace', 'a call by its path sends no key either')
  t.equal((await own.users.get(id)).name, body.name)
  const keyed = sent.filter(({ headers }) => headers.has('idempotency-key'))
  t.equal(keyed.length, 1, 'of the creation alone')
})

t.test('a deleted resource is restored', async (t) => {
  const { id: user_id } = await users.create(createBody())
  const profile = await userProfiles.create({ user_id, bio: 'Long' })
  await userProfiles.delete(profile.id)
  t.match(await userProfiles.restore(profile.id, { dryRun: true }), { bio: 'Long' })
  t.match(await userProfiles.restore(profile.id), { id: profile.id, bio: 'Long' })
  await t.rejects(userProfiles.restore(profile.id), ConflictError)
  // @ts-expect-error users cannot be restored
  t.type(() => users.restore(user_id), 'function')
})

t.test('rows of any iterable, and a file as it is, are imported', async (t) => {
  const bodies = Array.from({ length: 1_000 }, () => createBody())
  t.same(await users.import(bodies), { created: 1_000, updated: 0, unchanged: 0 })
  async function* renamed() {
    for (const { email } of bodies.slice(0, 2)) yield { email, name: 'Grace' }
  }
  const trial = await users.import(renamed(), { onConflict: 'email', dryRun: true })
  t.same(trial, { created: 0, updated: 2, unchanged: 0 })
  const exported = (await users.list().page()).data
  t.equal((await users.import(exported, { onConflict: 'email' })).unchanged, exported.length)

  const body = { ...createBody(), password: 'twelve brass cogs, turning', role: 'admin' as const }
  await app.admin.post('/users', body)
  const session = createClient({ baseUrl, signIn: { email: body.email, password: body.password } })
  const { email } = createBody()
  const file = () => new Blob([`name,email\nAda,${email}\n`]).stream()
  const ofSession = await session.users.import(file(), { format: 'csv' })
  t.same(ofSession, { created: 1, updated: 0, unchanged: 0 }, 'a session has its token')
  const options = { format: 'csv', onConflict: 'email', idempotencyKey: crypto.randomUUID() } as const
  t.same(await users.import(file(), options), await users.import(file(), options))
})

t.test('an error of an import names the rows, and an import can be aborted', async (t) => {
  const error = await catchError(() => users.import([createBody(), { name: '' }]))
  t.ok(error instanceof ValidationError)
  t.match(error, { fields: [{ field: 'rows.2.email' }, { field: 'rows.2.name' }] })
  const controller = new AbortController()
  async function* endless() {
    for (;;) {
      yield createBody()
      controller.abort(new Error('enough'))
    }
  }
  await t.rejects(users.import(endless(), { signal: controller.signal }), { message: 'enough' })
})
