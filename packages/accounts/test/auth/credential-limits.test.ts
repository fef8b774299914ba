/** A user has at most 100 API keys, and at most 100 sessions, of which the least recently used one ends first. */
import { EventEmitter, once } from 'node:events'
import t from 'tap'
import { createAccounts, NEW_PASSWORD, PASSWORD } from '../../../testing/helpers/accounts.ts'
import { createClient, type Json, quickHasher, testApp } from '../../../testing/helpers/app.ts'
import { createSharedDatabase } from '../../../testing/helpers/database.ts'
import { stopClock } from '../../../testing/helpers/time.ts'
import type { PasswordHasher } from '../../src/auth/passwords.ts'

const database = await createSharedDatabase(t)
const app = await testApp(t, {}, { database })
const other = await testApp(t, {}, { database })
const { create, signIn } = createAccounts(app)

const newKey = { name: 'Export', scopes: ['products:read'] }

const countOf = async (table: 'api_keys' | 'sessions', userId: string) => {
  const [row] = await database.run(`select count(*) as count from ${table} where user_id = $1`, [userId])
  return Number(row?.count)
}

/** Adds rows of API keys until the user has so many. */
const fillKeys = async ({ id }: { id: string }, total: number, expires = '1 day') => {
  const missing = total - (await countOf('api_keys', id))
  await database.run(
    `insert into api_keys (id, user_id, name, prefix, key_hash, scopes, expires_at)
     select gen_random_uuid(), $1, 'filler', 'rak_filler', gen_random_uuid()::text, '["*"]',
       now() + $3::text::interval from generate_series(1, $2)`,
    [id, missing, expires],
  )
}

const bearer = (base: string, token: string) => createClient(base, { authorization: `Bearer ${token}` })

t.test('a user with 100 API keys gets 409 until one is deleted', async (t) => {
  const ada = await app.person('member')
  const path = '/api-keys'
  await fillKeys(ada, 99)
  const headers = { 'idempotency-key': 'last-key' }
  const last = await ada.bearer.post(path, newKey, headers)
  t.equal(last.status, 201, last.text)

  const refused = await ada.bearer.post(path, newKey)
  t.equal(refused.status, 409)
  t.match(refused.body.error, { code: 'RESOURCE_CONFLICT', message: /at most 100 API keys/ })
  t.equal(await countOf('api_keys', ada.id), 100)
  const replayed = await ada.bearer.post(path, newKey, headers)
  t.equal(replayed.status, 201, 'a repetition of the request that made the last key is answered')
  t.equal(replayed.headers.get('idempotency-replayed'), 'true')
  const other = await app.person('member')
  t.equal((await other.bearer.post(path, newKey)).status, 201, 'other users are not affected')

  t.equal((await ada.bearer.delete(`${path}/${last.body.data.id}`)).status, 204)
  t.equal((await ada.bearer.post(path, newKey)).status, 201)
})

t.test('expired keys count until they are deleted, and so do those of the bootstrap key', async (t) => {
  const ada = await app.person('manager')
  await fillKeys(ada, 100, '-1 day')
  t.equal((await ada.bearer.post('/api-keys', newKey)).status, 409)
  const { body } = await ada.bearer.get('/api-keys?limit=100')
  const expired = body.data.find(({ name }: Json) => name === 'filler')
  t.equal((await ada.bearer.delete(`/api-keys/${expired.id}`)).status, 204)
  t.equal((await ada.bearer.post('/api-keys', newKey)).status, 201)
  await fillKeys({ id: app.adminId }, 100)
  t.equal((await app.admin.post('/api-keys', newKey)).status, 409)
})

t.test('of 20 concurrent requests for the 100th key one succeeds', async (t) => {
  const ada = await app.person('member')
  await fillKeys(ada, 99)
  const replies = await Promise.all(Array.from({ length: 20 }, () => ada.bearer.post('/api-keys', newKey)))
  t.same(replies.map(({ status }) => status).sort(), [201, ...Array(19).fill(409)])
  t.equal(await countOf('api_keys', ada.id), 100)
})

const origin = { ip: '127.0.0.1', userAgent: 'test' }

/** Begins sessions until the user has 100 of them, each used a minute after the one before. */
const fillSessions = async (id: string) => {
  const grants: { sessionId: string; token: string }[] = []
  for (let i = 0; i < 100; i++) {
    const grant = await app.app.sessions.create({ id, role: 'member' }, origin)
    grants.push({ sessionId: grant.sessionId, token: app.app.accessTokens.issue(grant).text })
    await database.run(`update sessions set last_used_at = now() - make_interval(mins => $2) where id = $1`, [
      grant.sessionId,
      200 - i,
    ])
  }
  return grants
}

t.test('a sign-in beyond 100 sessions ends the least recently used one, at once or within 5 s', async (t) => {
  const clock = stopClock(t)
  const { id, email } = await create()
  const grants = await fillSessions(id)
  const [first, second, third] = grants
  if (!first || !second || !third) throw new Error('there are no sessions')
  const read = async (token: string, base = app.base) => (await bearer(base, token).get('/users/me')).status
  // The first one is used again, which leaves the second as the least recently used one.
  t.equal(await read(first.token), 200)
  const signedIn = await signIn(email)
  t.equal(signedIn.status, 201, signedIn.text)
  t.equal(await countOf('sessions', id), 100)
  t.equal(await read(second.token), 401)
  for (const { token } of [first, third, ...grants.slice(98)])
    t.equal(await read(token, other.base), 200, 'the others go on')
  const age = `update sessions set last_used_at = now() - interval '1 day' where id = $1`
  await database.run(age, [first.sessionId])
  t.equal((await signIn(email)).status, 201)
  await clock.expireCaches(5_000)
  t.equal(await read(first.token), 401, 'a token that was cached')
})

t.test('20 concurrent sign-ins leave 100 sessions', async (t) => {
  const ada = await create()
  await fillSessions(ada.id)
  const grants = await Promise.all(
    Array.from({ length: 20 }, () => app.app.sessions.create({ id: ada.id, role: 'member' }, origin)),
  )
  const rows = await database.run('select id from sessions where user_id = $1', [ada.id])
  t.equal(rows.length, 100)
  const left = new Set(rows.map(({ id }) => id))
  t.ok(grants.every(({ sessionId }) => left.has(sessionId)))
})

t.test('a password that is replaced during its verification creates no session', async (t) => {
  const gate = new EventEmitter()
  const passwordHasher: PasswordHasher = {
    ...quickHasher,
    async verify(hashed, password) {
      const right = await quickHasher.verify(hashed, password)
      if (password === PASSWORD) {
        const opened = once(gate, 'open')
        gate.emit('verified')
        await opened
      }
      return right
    },
  }
  const slow = await testApp(t, {}, { database, passwordHasher })
  const accounts = createAccounts(slow)
  for (const change of [{ password: NEW_PASSWORD }, { status: 'suspended' }]) {
    const ada = await create()
    const verified = once(gate, 'verified')
    const reply = accounts.signIn(ada.email)
    await verified
    t.equal((await slow.admin.patch(`/users/${ada.id}`, change)).status, 200)
    gate.emit('open')
    const refused = await reply
    t.equal(refused.status, 401, refused.text)
    t.equal(refused.body.error.message, 'Invalid email address or password')
    t.equal(await countOf('sessions', ada.id), 0)
  }
})
