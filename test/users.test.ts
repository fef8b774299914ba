/** Users have unique emails and hashed passwords, and the last active admin remains. */
import { verify } from '@node-rs/argon2'
import {
  createClient,
  createUniqueName,
  createVersionedClient,
  describeList,
  testApp,
} from '@resource-api/testing'
import t from 'tap'
import { buildApp } from '../src/app.ts'

const address = () => `${createUniqueName('ada')}@example.com`
const PASSWORD = 'correct horse battery'

// Hashes as the server does, not as other tests do.
const app = await testApp(t, buildApp, {}, { passwordHasher: undefined })
const { adminId, anybody, base, database, person } = app
const admin = createVersionedClient(app.admin, 1)
const hashOf = async (id: string) =>
  (await database.run('select password_hash from users where id = $1', [id]))[0]?.password_hash

const newPerson = async (role: Parameters<typeof person>[0]) => {
  const { id, client } = await person(role)
  return { id, own: createVersionedClient(client, 1) }
}
const newUser = async (members: Record<string, unknown> = {}) =>
  (await admin.post('/users', { name: 'Ada', email: address(), ...members })).data

t.test('a new user is an active member with the email in lower case', async (t) => {
  const email = address()
  const reply = await admin.post('/users', { name: ' Ada ', email: email.toUpperCase() })
  t.equal(reply.status, 201)
  const { id, email_verified_at, created_at, updated_at, ...members } = reply.data
  t.same(members, { name: 'Ada', email, role: 'member', status: 'active' })
  t.match(email_verified_at, /^\d{4}-.*Z$/, 'an admin entered the address')
  t.equal(reply.headers.get('location'), `/api/v1/users/${id}`)
  t.equal(await hashOf(id), null, 'a password is optional')
})

t.test('a password is stored as a hash and never returned', async (t) => {
  const email = address()
  const created = await admin.post('/users', { name: 'Ada', email, password: PASSWORD })
  const { id } = created.data
  const hash = String(await hashOf(id))
  t.match(hash, /^\$argon2id\$v=19\$m=19456,t=2,p=1\$/)
  t.ok(await verify(hash, PASSWORD))
  const replies = [
    created,
    await admin.get(`/users/${id}`),
    await admin.patch(`/users/${id}`, { password: 'another horse battery' }),
    await admin.put(`/users/${id}`, { name: 'Ada', email }),
    await admin.get('/users?limit=100'),
  ]
  for (const reply of replies) {
    t.ok(reply.status < 300)
    t.notMatch(reply.text, /password|argon2/)
  }
  t.ok(await verify(String(await hashOf(id)), 'another horse battery'), 'PUT without one keeps it')
  for (const name of ['password', 'password_hash', 'search', 'revision']) {
    t.equal((await admin.get(`/users/${id}?fields=${name}`)).status, 400, `no field ${name}`)
  }
})

t.test('a password is used as sent, including spaces, and a new one changes the ETag', async (t) => {
  const { id } = await newUser({ password: '   spaces   ' })
  t.ok(await verify(String(await hashOf(id)), '   spaces   '))
  const before = (await admin.get(`/users/${id}`)).etag
  t.not((await admin.patch(`/users/${id}`, { password: '   spaces   ' })).etag, before)
})

t.test('a password equal to the email or the name is rejected, whichever changes', async (t) => {
  const email = address()
  const name = 'Augusta Ada King'
  const wrong = ['password INVALID_VALUE']
  const all = { name, email }
  t.same((await admin.post('/users', { ...all, password: email.toUpperCase() })).violations, wrong)
  t.same((await admin.post('/users', { ...all, password: name })).violations, wrong)
  const { id } = await newUser(all)
  t.same((await admin.patch(`/users/${id}`, { password: name.toLowerCase() })).violations, wrong)
  t.same((await admin.patch(`/users/${id}`, { password: email })).violations, wrong)
  const other = 'Another Name Of Hers'
  t.same((await admin.patch(`/users/${id}`, { password: other, name: other })).violations, wrong)
  t.equal((await admin.patch(`/users/${id}`, { password: 'Augusta Ada King!' })).status, 200)
})

t.test('an email is unique in any letter case', async (t) => {
  const [one, two] = [await newUser(), await newUser()]
  for (const reply of [
    await admin.post('/users', { name: 'Ada', email: one.email.toUpperCase() }),
    await admin.patch(`/users/${two.id}`, { email: one.email }),
    await admin.put(`/users/${two.id}`, { name: 'Ada', email: one.email.toUpperCase() }),
  ]) {
    t.equal(reply.status, 409)
    t.same(reply.violations, ['email ALREADY_EXISTS'])
    t.notMatch(reply.text, /users_email|unique|constraint/i)
  }
  const before = await admin.get(`/users/${one.id}`)
  const same = await admin.patch(`/users/${one.id}`, { email: one.email.toUpperCase() })
  t.equal(same.etag, before.etag, 'its own in capitals is no change')
})

t.test('me addresses the caller', async (t) => {
  t.equal((await admin.get('/users/me')).data.id, adminId)
  const { id, own } = await newPerson('member')
  t.equal((await own.get('/users/me')).data.id, id)
  t.equal((await own.patch('/users/me', { name: 'Me' })).data.name, 'Me')
  t.equal((await own.get('/users/me?fields=name')).data.name, 'Me')
  t.equal((await own.get('/users/ME')).status, 404)
  t.equal((await own.get('/users/me?include=profile')).status, 200)
})

t.test('deleting a user deletes the profile and keys', async (t) => {
  const { id, own } = await newPerson('member')
  t.equal((await own.post('/user-profiles', { display_name: 'A' })).status, 201)
  t.equal((await admin.delete(`/users/${id}`)).status, 204)
  t.equal((await admin.get(`/users/${id}`)).status, 404)
  t.same((await admin.get(`/user-profiles?user_id=${id}`)).data, [])
  t.equal((await own.get('/users/me')).status, 401)
  const left = await database.run(
    'select id from api_keys where user_id = $1 union select id from user_profiles where user_id = $1',
    [id],
  )
  t.same(left, [])
  t.equal((await admin.delete(`/users/${id}`)).status, 404)
})

t.test('the last active admin cannot be deleted, demoted or deactivated', async (t) => {
  const refused = async () => [
    (await admin.delete(`/users/${adminId}`)).status,
    (await admin.patch(`/users/${adminId}`, { role: 'manager' })).status,
    (await admin.patch(`/users/${adminId}`, { status: 'inactive' })).status,
    (await admin.patch('/users/me', { status: 'suspended' })).status,
    (await admin.put('/users/me', { name: 'A', email: 'admin@example.com', role: 'member' })).status,
  ]
  t.same(await refused(), [409, 409, 409, 409, 409])
  const { id } = await newUser({ role: 'admin', status: 'suspended' })
  t.same(await refused(), [409, 409, 409, 409, 409], 'one who is suspended does not count')
  await admin.patch(`/users/${id}`, { status: 'active' })
  const other = await newPerson('admin')
  t.equal((await other.own.patch(`/users/${adminId}`, { role: 'manager' })).status, 200)
  t.equal((await other.own.patch(`/users/${adminId}`, { role: 'admin' })).status, 200)
  t.equal((await admin.delete(`/users/${id}`)).status, 204)
  t.equal((await admin.delete(`/users/${other.id}`)).status, 204)
  t.same(await refused(), [409, 409, 409, 409, 409])
})

t.test('an inactive user cannot authenticate', async (t) => {
  for (const status of ['inactive', 'suspended']) {
    const { id, own } = await newPerson('manager')
    t.equal((await own.get('/users/me')).status, 200)
    t.equal((await admin.patch(`/users/${id}`, { status })).status, 200)
    t.equal((await own.get('/users/me')).status, 401)
    await admin.patch(`/users/${id}`, { status: 'active' })
    t.equal((await own.get('/users/me')).status, 200)
  }
})

t.test('only an admin changes role and status', async (t) => {
  for (const role of ['member', 'manager'] as const) {
    const { id, own } = await newPerson(role)
    const { data } = await own.get('/users/me')
    const whole = { name: data.name, email: data.email }
    t.equal((await own.patch('/users/me', { role: 'admin' })).status, 403)
    t.equal((await own.patch('/users/me', { status: 'suspended' })).status, 403)
    t.equal((await own.put('/users/me', { ...whole, role: 'admin' })).status, 403)
    t.equal((await own.patch('/users/me', { role, status: 'active' })).status, 200, 'the same is no change')
    t.equal((await own.put('/users/me', { ...whole, name: 'New' })).data.role, role, 'absent is kept')
    t.equal((await own.put('/users/me', { ...whole, role, status: 'active' })).status, 200)
    t.equal((await own.patch('/users/me', { status: 'inactive' })).data.status, 'inactive')
    t.equal((await own.get('/users/me')).status, 401)
    t.equal((await admin.get(`/users/${id}`)).data.role, role)
  }
  const { id } = await newUser()
  t.equal((await admin.patch(`/users/${id}`, { role: 'manager', status: 'suspended' })).status, 200)
})

t.test("an API key cannot change its owner's password or email", async (t) => {
  const { own } = await newPerson('member')
  const { data } = await own.get('/users/me')
  for (const reply of [
    await own.patch('/users/me', { password: PASSWORD, current_password: 'whatever it was' }),
    await own.patch('/users/me', { password: PASSWORD }),
    await own.patch('/users/me', { email: address() }),
    await own.put('/users/me', { name: data.name, email: address() }),
    await admin.patch('/users/me', { password: PASSWORD }),
    await admin.put('/users/me', { name: 'Admin', email: address() }),
  ]) {
    t.equal(reply.status, 403)
    t.match(reply.message, /Bearer token/)
  }
  t.equal((await own.patch('/users/me', { email: data.email.toUpperCase() })).status, 200)
})

t.test('current_password is no field of a new user', async (t) => {
  const body = { name: 'A', email: address(), current_password: PASSWORD }
  t.same((await admin.post('/users', body)).violations, ['current_password UNKNOWN_FIELD'])
})

t.test('a user changes the own password and email with a token', async (t) => {
  const { id, email } = await newUser({ password: PASSWORD })
  const signedIn = await anybody.post('/tokens', { grant_type: 'password', email, password: PASSWORD })
  const own = createClient(base, { authorization: `Bearer ${signedIn.body.data.access_token}` })
  const change = async (fields: Record<string, unknown>) => {
    const { status, body } = await own.patch('/users/me', fields)
    const violations: { field: string; code: string }[] = body.error?.details ?? []
    return [status, ...violations.map(({ field, code }) => `${field} ${code}`)].join(' ')
  }
  const next = 'quite another password'
  t.equal(await change({ password: next }), '422 current_password REQUIRED')
  t.equal(await change({ email: address() }), '422 current_password REQUIRED')
  t.equal(await change({ password: next, current_password: 'not the right one' }), '403')
  t.equal(await change({ email: address(), current_password: 'not the right one' }), '403')
  t.equal(await change({ name: 'Countess' }), '200', 'a name needs no password')
  t.equal(await change({ password: next, current_password: PASSWORD }), '200')
  t.ok(await verify(String(await hashOf(id)), next))
  t.equal(await change({ email: address(), current_password: PASSWORD }), '403', 'the old one is over')
  t.equal(await change({ email: address(), current_password: next }), '200')
  const rivals = ['one of two passwords', 'two of two passwords']
  const outcomes = await Promise.all(rivals.map((password) => change({ password, current_password: next })))
  // Both were right when they were asked; by its turn the other's no longer was, or was asked only then.
  t.equal(outcomes.filter((each) => each === '200').length, 1, outcomes.join())
  t.ok(outcomes.every((each) => each === '200' || each === '409' || each === '403'))
})

t.test('the list has the promised filters, sorts, searched fields and relations', async (t) => {
  const { include, ...list } = describeList(app, 'users')
  t.same(list, {
    filters: ['status', 'role', 'email', 'status_not', 'name_prefix', 'email_prefix'],
    ranges: [],
    sorts: ['name', 'email', 'created_at', 'updated_at'],
    search: ['name', 'email'],
  })
  // The resources of a project add the inverses of their own relations.
  t.equal(include.profile, 'user-profiles')
})
