/** revoke_api_keys deletes the API keys of a user together with a change of password or email. */
import t from 'tap'
import {
  createAccounts,
  NEW_PASSWORD as NEXT,
  newAddress as newEmail,
  PASSWORD,
} from '../../../testing/helpers/accounts.ts'
import { createClient, type Json, testApp } from '../../../testing/helpers/app.ts'
import { createSharedDatabase } from '../../../testing/helpers/database.ts'
import { stopClock } from '../../../testing/helpers/time.ts'
import {
  createUniqueName,
  createVersionedClient,
  type VersionedClient,
} from '../../../testing/helpers/versioned-client.ts'

const database = await createSharedDatabase(t)
const app = await testApp(t, {}, { database })
const other = await testApp(t, {}, { database })

const { createSession, createSignedIn } = createAccounts(app)
const revoke = { revoke_api_keys: true }

/** A user who signed in with a password, with two API keys of their own that the app remembers. */
async function account() {
  const { id, email, own: bearer } = await createSignedIn()
  const texts: string[] = []
  for (const name of ['one', 'two']) {
    texts.push((await bearer.post('/api-keys', { name, scopes: ['*'] })).body.data.key)
  }
  const keys = () => Promise.all(texts.map(async (key) => (await withKey(app.base, key)).status))
  await keys()
  return { id, email, bearer, me: createVersionedClient(bearer, 1), texts, keys }
}

const withKey = (base: string, key: string) => createClient(base, { 'x-api-key': key }).get('/users/me')

const GOOD = [200, 200]
const REVOKED = [401, 401]

type Account = Awaited<ReturnType<typeof account>>

/** The changes with which keys can be revoked. */
const changes: Record<string, (admin: VersionedClient, ada: Account, revoke: object) => Promise<Json>> = {
  "PATCH of one's own password": (_, { me }, revoke) =>
    me.patch('/users/me', { password: NEXT, current_password: PASSWORD, ...revoke }),
  "PATCH of one's own email address": (_, { me }, revoke) =>
    me.patch('/users/me', { email: newEmail(), current_password: PASSWORD, ...revoke }),
  "PUT of one's own password": (_, { me, email }, revoke) =>
    me.put('/users/me', { name: 'Ada', email, password: NEXT, current_password: PASSWORD, ...revoke }),
  'PATCH of a password by an admin': (admin, { id }, revoke) =>
    admin.patch(`/users/${id}`, { password: NEXT, ...revoke }),
  'PUT of a password by an admin': (admin, { id, email }, revoke) =>
    admin.put(`/users/${id}`, { name: 'Ada', email, password: NEXT, ...revoke }),
  'PUT of an email address by an admin': (admin, { id }, revoke) =>
    admin.put(`/users/${id}`, { name: 'Ada', email: newEmail(), ...revoke }),
}

const admin = createVersionedClient(app.admin, 1)

for (const [name, change] of Object.entries(changes)) {
  t.test(`${name} deletes the API keys only with revoke_api_keys true`, async (t) => {
    const [kept, revoked, bystander] = [await account(), await account(), await account()]
    t.equal((await change(admin, kept, { revoke_api_keys: false })).status, 200)
    const reply = await change(admin, revoked, revoke)
    t.equal(reply.status, 200, reply.text)
    t.notMatch(reply.text, /revoke_api_keys/)
    t.same([await kept.keys(), await revoked.keys(), await bystander.keys()], [GOOD, REVOKED, GOOD])
    t.same(await database.run('select id from api_keys where user_id = $1', [revoked.id]), [])
  })
}

t.test('revoke_api_keys needs a new password or address, is a boolean, and no field to read', async (t) => {
  const ada = await account()
  const { name, email } = (await ada.me.get('/users/me')).data
  for (const [reply, violation] of [
    [ada.me.patch('/users/me', { name: 'Countess', ...revoke }), 'INVALID_VALUE'],
    [ada.me.patch('/users/me', { email: email.toUpperCase(), ...revoke }), 'INVALID_VALUE'],
    [ada.me.put('/users/me', { name, email, ...revoke }), 'INVALID_VALUE'],
    [admin.patch(`/users/${ada.id}`, revoke), 'INVALID_VALUE'],
    [admin.put(`/users/${ada.id}`, { name: 'Countess', email, ...revoke }), 'INVALID_VALUE'],
    [admin.patch(`/users/${ada.id}`, { password: NEXT, revoke_api_keys: 'true' }), 'INVALID_TYPE'],
    [admin.patch(`/users/${ada.id}`, { password: NEXT, revoke_api_keys: null }), 'INVALID_TYPE'],
    [admin.post('/users', { name, email: newEmail(), password: NEXT, ...revoke }), 'UNKNOWN_FIELD'],
  ] as const) {
    t.equal((await reply).status, 422)
    t.same((await reply).violations, [`revoke_api_keys ${violation}`])
  }
  t.same(await ada.keys(), GOOD)
  t.equal((await ada.me.get('/users/me')).data.name, 'Ada', 'nothing was changed')
  t.equal((await ada.me.patch('/users/me', { revoke_api_keys: false })).status, 200, 'false asks for nothing')
  t.equal((await admin.get(`/users/${ada.id}?fields=revoke_api_keys`)).status, 400)
})

t.test('a rejected change deletes no key', async (t) => {
  const ada = await account()
  const { email: taken } = await account()
  const statuses = [
    await ada.me.patch('/users/me', { password: NEXT, current_password: 'not the right one', ...revoke }),
    await ada.me.patch('/users/me', { password: NEXT, ...revoke }),
    await ada.me.patch('/users/me', { email: taken, current_password: PASSWORD, ...revoke }),
    await admin.patch(`/users/${ada.id}`, { email: taken, ...revoke }),
    await admin.patch(`/users/${ada.id}`, { password: NEXT, ...revoke }, { 'if-match': '"9-x"' }),
  ].map(({ status }) => status)
  t.same(statuses, [403, 422, 409, 409, 412])
  t.same(await ada.keys(), GOOD)
})

t.test('a replay with the same Idempotency-Key deletes no new key', async (t) => {
  const ada = await account()
  const headers = { 'idempotency-key': createUniqueName('revoke') }
  const body = { password: NEXT, ...revoke }
  const first = await admin.patch(`/users/${ada.id}`, body, headers)
  t.equal(first.status, 200, first.text)
  const again = await createSession(ada.email, NEXT)
  const { key } = (await again.post('/api-keys', { name: 'new', scopes: ['*'] })).body.data
  t.equal((await admin.patch(`/users/${ada.id}`, body, headers)).text, first.text)
  t.equal((await withKey(app.base, key)).status, 200)
  t.equal((await admin.patch(`/users/${ada.id}`, { password: NEXT }, headers)).code, 'IDEMPOTENCY_KEY_REUSED')
})

t.test('another process rejects the deleted keys within 5 s', async (t) => {
  const clock = stopClock(t)
  const ada = await account()
  const [key = ''] = ada.texts
  t.equal((await withKey(other.base, key)).status, 200)
  const body = { password: NEXT, current_password: PASSWORD, revoke_api_keys: true }
  t.equal((await ada.bearer.patch('/users/me', body)).status, 200)
  await clock.expireCaches(5_000)
  t.equal((await withKey(other.base, key)).status, 401)
})
