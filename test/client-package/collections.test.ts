/** The client package reads and writes every collection, and its errors have a class per status. */
import t from 'tap'
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
} from '../../client/src/index.ts'
import { ADMIN_KEY, testApp, UNKNOWN_ID } from '../helpers/app.ts'
import { createRecordedFetch } from '../helpers/recorded-fetch.ts'
import { createUniqueName } from '../helpers/versioned-client.ts'

const createBody = (name = 'Ada') => ({ name, email: `${createUniqueName('ada')}@example.com` })

/** Returns the next name of a user whose name is a number. */
const increase = (name: string, by = 1) => ({ name: String(Number(name) + by) })

t.test('collections', async (t) => {
  const app = await testApp(t)
  const { base: baseUrl } = app
  const client = createClient({ baseUrl, apiKey: ADMIN_KEY })

  t.test('a resource is created, read, replaced, updated and deleted', async (t) => {
    const response = await client.users.create(createBody()).withResponse()
    t.match(response, { status: 201, etag: /^"1-/, requestId: /./ })
    const created = response.data
    t.same(await client.users.get(created.id), created)
    const replaced = await client.users.replace(created.id, createBody('Ada King'))
    t.equal(replaced.name, 'Ada King')
    const updated = await client.users.update(created.id, { status: 'inactive' })
    t.equal(updated.status, 'inactive')
    t.equal(await client.users.delete(created.id), undefined)
    await t.rejects(client.users.get(created.id), NotFoundError)
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
    const { id } = await client.users.create(createBody())
    const profile = await client.userProfiles.create({ user_id: id, display_name: 'Ada' })
    const user = await client.users.get(id, { include: ['profile'], fields: ['name'] })
    t.same(Object.keys(user).sort(), ['id', 'name', 'profile'])
    t.same(user.profile, profile)
    const [listed] = await client.userProfiles.list({ user_id: id, include: ['user'] }).toArray()
    t.equal(listed?.user?.id, id)
  })

  t.test('a write with an outdated entity tag fails with PreconditionFailedError', async (t) => {
    const { data, etag } = await client.users.create(createBody()).withResponse()
    const { id } = data
    const ifMatch = etag ?? ''
    await client.users.update(id, { name: 'first' }, { ifMatch })
    await t.rejects(client.users.update(id, { name: 'second' }, { ifMatch }), PreconditionFailedError)
    await t.rejects(client.users.replace(id, createBody(), { ifMatch }), PreconditionFailedError)
    await t.rejects(client.users.delete(id, { ifMatch }), PreconditionFailedError)
    t.equal((await client.users.get(id)).name, 'first')
  })

  t.test('edit writes again if the resource was changed in between', async (t) => {
    const { id } = await client.users.create(createBody('10'))
    const { fetch, summarize } = createRecordedFetch()
    const other = createClient({ baseUrl, apiKey: ADMIN_KEY, fetch })
    let edits = 0
    const edited = await other.users.edit(id, async ({ name }) => {
      edits += 1
      if (edits <= 2) await client.users.edit(id, (current) => increase(current.name, 100))
      return increase(name)
    })
    t.equal(edited.name, '211')
    const path = `/users/${id}`
    const lost = [`GET ${path} 200`, `PATCH ${path} 412`]
    t.same(summarize(), [...lost, ...lost, `GET ${path} 200`, `PATCH ${path} 200`])

    const editors = Array.from({ length: 20 }, () => client.users.edit(id, ({ name }) => increase(name)))
    await Promise.all(editors)
    t.equal((await client.users.get(id)).name, '231', 'editors that collide all succeed')

    t.intercept(Math, 'random', { value: () => 0 })
    await t.rejects(
      other.users.edit(id, async ({ name }) => {
        await client.users.update(id, increase(name, 100))
        return increase(name)
      }),
      PreconditionFailedError,
      'gives up in the end',
    )
    const { name } = await client.users.get(id)
    t.equal((await client.users.edit(id, () => undefined)).name, name, 'undefined changes nothing')
  })

  t.test('an error has the class of its status, its code, its fields and its request id', async (t) => {
    const ada = await client.users.create(createBody())
    const member = createClient({ baseUrl, apiKey: (await app.person('member')).key })
    const [status, name] = [422, 'ValidationError']
    for (const [call, type, expected] of [
      [
        () => client.users.create({ name: 'Ada', email: 'ada' }),
        ValidationError,
        { status, name, code: 'VALIDATION_ERROR', fields: [{ field: 'email', code: 'INVALID_FORMAT' }] },
      ],
      [
        () => client.users.create({ ...createBody(), email: ada.email }),
        ConflictError,
        { fields: [{ field: 'email', code: 'ALREADY_EXISTS' }] },
      ],
      [() => client.users.get(UNKNOWN_ID), NotFoundError, { status: 404, code: 'RESOURCE_NOT_FOUND' }],
      [() => member.users.create(createBody()), PermissionError, { status: 403 }],
      [
        () => createClient({ baseUrl, apiKey: 'wrong' }).users.get('me'),
        AuthenticationError,
        { status: 401 },
      ],
      [() => client.users.list({ limit: 1000 }).page(), ApiError, { name: 'BadRequestError' }],
    ] as const) {
      const error = await Promise.resolve<unknown>(call()).catch((e) => e)
      t.type(error, type)
      t.type(error, ApiError)
      t.match(error, { ...expected, requestId: String })
    }
  })

  t.test('with a cache, the server confirms a response that the client has', async (t) => {
    const { id } = await client.users.create(createBody())
    const { fetch, sent } = createRecordedFetch()
    const cached = createClient({ baseUrl, apiKey: ADMIN_KEY, fetch, cacheSize: 2 })
    const first = await cached.users.get(id)
    first.name = 'changed by the caller'
    const second = await cached.users.get(id).withResponse()
    t.equal(second.data.name, 'Ada')
    t.match(second, { status: 200, etag: /^"1-/, requestId: /./ })
    await client.users.update(id, { name: 'Ada King' })
    t.equal((await cached.users.get(id)).name, 'Ada King')
    t.equal((await cached.users.get(id)).name, 'Ada King')
    t.same(
      sent.map(({ status }) => status),
      [200, 304, 200, 304],
    )
    for (const fields of [['name'], ['email']] as const) await cached.users.get(id, { fields })
    await cached.users.get(id)
    t.equal(sent.at(-1)?.status, 200, 'the least recently used response was removed')
  })

  t.test('every path of the document is reachable', async (t) => {
    const params = { path: { id: UNKNOWN_ID } }
    const { error, response } = await client.http.GET('/api/v1/users/{id}', { params })
    t.equal(response.status, 404)
    t.equal(error?.error.code, 'RESOURCE_NOT_FOUND')
  })
})
