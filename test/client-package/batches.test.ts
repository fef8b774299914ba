/** `client.batch` runs writes in one transaction: results in order, ids of resources that it creates, errors by operation. */
import t from 'tap'
import { ConflictError, createClient, NotFoundError, ValidationError } from '../../client/src/index.ts'
import { ADMIN_KEY, testApp, UNKNOWN_ID } from '../helpers/app.ts'
import { createRecordedFetch } from '../helpers/recorded-fetch.ts'
import { createUniqueName } from '../helpers/versioned-client.ts'

const createBody = (name = 'Ada') => ({ name, email: `${createUniqueName('ada')}@example.com` })

t.test('batches', async (t) => {
  const { base: baseUrl } = await testApp(t)
  const client = createClient({ baseUrl, apiKey: ADMIN_KEY })
  const { users, userProfiles } = client

  t.test('the results are those of the operations, in their order', async (t) => {
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
  })

  t.test('an array has results of one type', async (t) => {
    const names = ['a', 'b', 'c']
    const created = await client.batch(names.map((name) => users.batch.create(createBody(name))))
    t.same(
      created.map(({ name }) => name),
      names,
    )
  })

  t.test('an error has what is wrong with each operation', async (t) => {
    const taken = createBody()
    await users.create(taken)
    const wrong = client.batch([
      users.batch.create(createBody('')),
      users.batch.create(createBody()),
      { method: 'POST', path: '/nothing', body: {} },
    ])
    const error = await wrong.catch((reason: unknown) => reason)
    if (!(error instanceof ValidationError)) return t.fail(String(error))
    t.match(
      [...error.operations],
      [
        [0, [{ field: 'body.name', code: 'TOO_SHORT' }]],
        [2, [{ field: 'path', code: 'NOT_FOUND' }]],
      ],
    )
    const late = client.batch([users.batch.create(createBody()), users.batch.create(taken)])
    const conflict = await late.catch((reason: unknown) => reason)
    if (!(conflict instanceof ConflictError)) return t.fail(String(conflict))
    t.match([...conflict.operations], [[1, [{ field: 'body.email', code: 'ALREADY_EXISTS' }]]])
    const unknown = await client.batch([users.batch.delete(UNKNOWN_ID)]).catch((reason: unknown) => reason)
    if (!(unknown instanceof NotFoundError)) return t.fail(String(unknown))
    t.match([...unknown.operations], [[0, [{ field: '', code: 'NOT_FOUND' }]]])
  })

  t.test('a reference to no earlier creation is a TypeError, and sends nothing', async (t) => {
    const recorded = createRecordedFetch()
    const own = createClient({ baseUrl, apiKey: ADMIN_KEY, fetch: recorded.fetch })
    const ada = own.users.batch.create(createBody())
    const profile = own.userProfiles.batch.create({ user_id: ada.id })
    for (const operations of [[profile], [profile, ada]]) {
      await t.rejects(own.batch(operations), { name: 'TypeError', message: /^Operation 0 refers to/ })
    }
    t.throws(() => own.users.batch.delete(''), TypeError)
    t.same(recorded.sent, [])
  })

  t.test('a batch whose response was lost runs once', async (t) => {
    const recorded = createRecordedFetch((_request, index) => index === 0)
    const own = createClient({ baseUrl, apiKey: ADMIN_KEY, fetch: recorded.fetch })
    const body = createBody()
    const [created] = await own.batch([own.users.batch.create(body)])
    t.equal(created.email, body.email)
    t.equal(recorded.sent.length, 2)
    const [first, second] = recorded.sent.map(({ headers }) => headers.get('idempotency-key'))
    t.ok(first)
    t.equal(second, first)
  })
})
