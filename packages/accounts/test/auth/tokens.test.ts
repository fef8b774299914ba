/** POST /tokens signs in and refreshes sessions, and detects reuse of a refresh token. */
import t from 'tap'
import { deriveKey } from '../../../http/src/config/secrets.ts'
import { createAccounts, NEW_PASSWORD, PASSWORD } from '../../../testing/helpers/accounts.ts'
import { APP_SECRET, type Client, createClient, testApp } from '../../../testing/helpers/app.ts'
import { createSharedDatabase } from '../../../testing/helpers/database.ts'
import { getViolations } from '../../../testing/helpers/replies.ts'
import { createRefreshTokens } from '../../src/auth/tokens/refresh-token.ts'

/** The same refresh tokens as those of the app, which derives their key from the secret of `testApp`. */
const refreshTokens = createRefreshTokens(deriveKey(APP_SECRET, 'refresh tokens'))

/** Makes the uses of a session's refresh tokens as old as the grace and a second more. */
const AGE = `update sessions set rotations = array(select unnest(rotations) - interval '11 seconds') where id = $1`
const database = await createSharedDatabase(t)
const app = await testApp(t, {}, { database })
const other = await testApp(t, {}, { database })
const { admin, anybody, base } = app
const { create, signIn } = createAccounts(app)

const bearer = (token: string): Client => createClient(base, { authorization: `Bearer ${token}` })
const refresh = (token: string, client = anybody) =>
  client.post('/tokens', { grant_type: 'refresh_token', refresh_token: token })
/** Signs a new user in, and returns the grant. */
const open = async () => (await signIn((await create()).email)).body.data

t.test('a 201 has the tokens, their lifetimes and the session', async (t) => {
  const { id, email } = await create()
  const { status, body, headers } = await signIn(email)
  t.equal(status, 201)
  t.match(body.data, {
    id: /^[0-9a-f-]{36}$/,
    token_type: 'Bearer',
    access_token: /^[\w-]+\.[\w-]+\.[\w-]+$/,
    expires_in: 900,
    refresh_token: /^rrt_[\w-]{90,}$/,
    refresh_expires_in: 30 * 24 * 3600,
    session_id: /^[0-9a-f-]{36}$/,
    user_id: id,
  })
  t.equal(headers.get('cache-control'), 'no-store')
  t.equal(headers.get('api-version'), '1')
  t.equal((await bearer(body.data.access_token).get('/users/me')).body.data.id, id)
})

t.test('a user signs in through v2, and signs out by deleting the session', async (t) => {
  const ada = await create()
  const grant = { grant_type: 'password', email: ada.email.toUpperCase(), password: PASSWORD }
  const { access_token } = (await anybody.post('/v2/tokens', grant)).body.data.attributes
  const me = bearer(access_token)
  const { data } = (await me.get('/sessions')).body
  t.match(data, [{ current: true, user_id: ada.id }])
  t.equal((await me.delete(`/sessions/${data[0].id}`)).status, 204)
  t.equal((await me.get('/users/me')).status, 401)
})

t.test('an invalid grant is rejected with 422, a query string with 400', async (t) => {
  for (const [grant, ...violations] of [
    [{}, 'grant_type REQUIRED'],
    [{ grant_type: 'client_credentials' }, 'grant_type INVALID_VALUE'],
    [{ grant_type: 5 }, 'grant_type INVALID_TYPE'],
    [{ grant_type: 'password' }, 'email REQUIRED', 'password REQUIRED'],
    [{ grant_type: 'refresh_token', email: 'a@b.example' }, 'email UNKNOWN_FIELD', 'refresh_token REQUIRED'],
  ] as const) {
    const reply = await anybody.post('/tokens', grant)
    t.equal(reply.status, 422, reply.text)
    t.same(getViolations(reply), violations)
  }
  const typed = { data: { type: 'tokens', attributes: { grant_type: 'password', email: 'a@b.example' } } }
  t.same(getViolations(await anybody.post('/v2/tokens', typed)), ['data.attributes.password REQUIRED'])
  t.equal((await anybody.post('/tokens?x=1', { grant_type: 'password' })).status, 400)
  t.equal((await anybody.get('/tokens')).status, 405)
})

t.test('20 concurrent refreshes of one token in two processes give one successor', async (t) => {
  const data = await open()
  const all = await Promise.all(
    Array.from({ length: 20 }, (_, i) => refresh(data.refresh_token, i % 2 ? other.anybody : anybody)),
  )
  t.same(new Set(all.map(({ status }) => status)), new Set([201]))
  const successors = new Set(all.map((reply) => reply.body.data.refresh_token))
  t.equal(successors.size, 1)
  const [next = ''] = successors
  t.not(next, data.refresh_token)
  t.equal((await refresh(next)).status, 201, 'and it is good')
})

t.test('a token reused after the grace period ends the session, also in a second process', async (t) => {
  const data = await open()
  const { refresh_token: first, session_id: session, access_token: access } = data
  const second = (await refresh(first)).body.data.refresh_token
  await database.run(AGE, [session])
  t.equal((await refresh(first, other.anybody)).status, 401)
  t.equal((await refresh(second)).status, 401, 'the whole family is gone')
  t.equal((await bearer(access).get('/users/me')).status, 401)
})

t.test('an older token ends the session after the grace period, a forged one does not', async (t) => {
  const data = await open()
  const first: string = data.refresh_token
  const forged = `${first.slice(0, -3)}${first.endsWith('AAA') ? 'BBB' : 'AAA'}`
  t.equal((await refresh(forged)).status, 401)
  const second = (await refresh(first)).body.data.refresh_token
  const third = (await refresh(second)).body.data.refresh_token
  t.equal((await refresh(forged)).status, 401)
  t.equal((await refresh('rrt_nonsense')).status, 401)
  t.equal((await refresh(third)).status, 201, 'nothing was ended by those')
  await database.run(AGE, [data.session_id])
  t.equal((await refresh(first)).status, 401)
  t.equal((await refresh(third)).status, 401)
})

t.test('a reuse after 5,000 rotations is rejected with 401 and ends the session', async (t) => {
  const data = await open()
  const { refresh_token: first, session_id: session, access_token: access } = data
  let token = refreshTokens.read(first)
  if (!token) throw new Error('the refresh token cannot be read')
  for (let i = 0; i < 5_000; i++) token = refreshTokens.getSuccessor(token)
  await database.run(
    `update sessions set generation = $2, refresh_hash = $3,
       rotations = array(select now() from generate_series(1, 20)) where id = $1`,
    [session, token.generation, refreshTokens.hash(token)],
  )
  const current = await refresh(refreshTokens.write(token))
  t.equal(current.status, 201, 'the current token is good')
  t.equal((await refresh(first)).status, 401)
  t.same(await database.run('select id from sessions where id = $1', [session]), [])
  t.equal((await refresh(current.body.data.refresh_token)).status, 401)
  t.equal((await bearer(access).get('/users/me')).status, 401)
})

t.test(
  'a token reused in the grace period yields its successor, unless it was rotated 20 times',
  async (t) => {
    const data = await open()
    const chain: string[] = [data.refresh_token]
    const rotate = async () => {
      const { status, body } = await refresh(chain.at(-1) ?? '')
      t.equal(status, 201)
      chain.push(body.data.refresh_token)
    }
    for (let i = 0; i < 20; i++) await rotate()
    t.equal((await refresh(chain[0] ?? '', other.anybody)).body.data.refresh_token, chain[1], 'its successor')
    await rotate()
    t.equal((await refresh(chain[1] ?? '')).body.data.refresh_token, chain[2])
    t.equal((await refresh(chain[0] ?? '')).status, 401)
    t.equal((await refresh(chain.at(-1) ?? '')).status, 401, 'the session has ended')
  },
)

t.test('a token of a later generation than the stored one ends nothing', async (t) => {
  const data = await open()
  const first = refreshTokens.read(data.refresh_token)
  if (!first) throw new Error('the refresh token cannot be read')
  const ahead = refreshTokens.write(refreshTokens.getSuccessor(first))
  t.equal((await refresh(ahead)).status, 401)
  t.equal((await refresh(data.refresh_token)).status, 201)
})

t.test('a session expires after 30 days without use, and after 90 days in total', async (t) => {
  const data = await open()
  const { session_id: session } = data
  await database.run(`update sessions set ends_at = now() + interval '1 hour' where id = $1`, [session])
  const last = await refresh(data.refresh_token)
  t.ok(last.body.data.refresh_expires_in <= 3600, 'refreshing does not lead beyond the 90 days')
  await database.run(`update sessions set expires_at = now() where id = $1`, [session])
  t.equal((await refresh(last.body.data.refresh_token)).status, 401)
})

t.test('a session ends 90 days after its sign-in, and no refresh leads beyond that', async (t) => {
  const { session_id: session, refresh_token } = await open()
  const [row] = await database.run(
    `select extract(epoch from ends_at - created_at)::float8 as seconds from sessions where id = $1`,
    [session],
  )
  // The two times are those of one statement.
  t.equal(Math.round(Number(row?.seconds)), 90 * 24 * 3600)
  await database.run(`update sessions set ends_at = now() + interval '29 days' where id = $1`, [session])
  const { refresh_expires_in } = (await refresh(refresh_token)).body.data
  t.ok(refresh_expires_in <= 29 * 24 * 3600 && refresh_expires_in > 28.9 * 24 * 3600, refresh_expires_in)
})

t.test('the database contains hashes of tokens only', async (t) => {
  const data = await open()
  const [row] = await database.run('select * from sessions where id = $1', [data.session_id])
  t.notOk(JSON.stringify(row).includes(data.refresh_token.slice(40, 80)))
  t.match(row?.refresh_hash, /^[0-9a-f]{64}$/)
})

t.test('a change of the own password ends the other sessions, and a suspension all', async (t) => {
  const { id, email } = await create()
  const [here, there] = [(await signIn(email)).body.data, (await signIn(email)).body.data]
  const me = bearer(here.access_token)
  const change = { password: NEW_PASSWORD, current_password: PASSWORD }
  t.equal((await me.patch('/users/me', change)).status, 200)
  t.equal((await me.get('/users/me')).status, 200, 'this session goes on')
  t.equal((await bearer(there.access_token).get('/users/me')).status, 401)
  t.equal((await refresh(there.refresh_token)).status, 401)
  t.equal((await signIn(email)).status, 401)
  t.equal((await signIn(email, NEW_PASSWORD)).status, 201)
  await admin.patch(`/users/${id}`, { status: 'suspended' })
  t.equal((await me.get('/users/me')).status, 401, 'at once in the same process')
  await admin.patch(`/users/${id}`, { status: 'active' })
  t.equal((await refresh(here.refresh_token)).status, 401, 'it had ended the sessions')
})

t.test('a change of the own address ends the other sessions', async (t) => {
  const { email } = await create()
  const [here, there] = [(await signIn(email)).body.data, (await signIn(email)).body.data]
  const me = bearer(here.access_token)
  const address = `new-${email}`
  t.equal((await me.patch('/users/me', { email: address, current_password: PASSWORD })).status, 200)
  t.equal((await me.get('/users/me')).body.data.email, address, 'this session goes on')
  t.equal((await bearer(there.access_token).get('/users/me')).status, 401)
  t.equal((await refresh(there.refresh_token)).status, 401)
  t.equal((await refresh(here.refresh_token)).status, 201)
})

t.test('users can sign up if sign-up is allowed', async (t) => {
  const body = { name: 'New', email: 'new@example.com', password: PASSWORD }
  t.equal((await anybody.post('/users', body)).status, 401)
  const { anybody: stranger, person } = await testApp(t, { ALLOW_SIGNUP: 'true' }, { database })
  t.same(getViolations(await stranger.post('/users', { ...body, role: 'admin', status: 'active' })), [
    'role READ_ONLY',
    'status READ_ONLY',
  ])
  const made = await stranger.post('/users', body)
  t.equal(made.status, 201, made.text)
  t.match(made.body.data, { role: 'member', status: 'active' })
  t.equal((await stranger.get(`/users/${made.body.data.id}`)).status, 401, 'nothing else is open')
  t.equal(
    (await stranger.post('/users', body, { 'x-api-key': 'bad' })).status,
    401,
    'not even with a bad key',
  )
  const member = (await person('member')).client
  t.equal((await member.post('/users', { ...body, email: 'x@example.com' })).status, 403)
  t.equal((await admin.post('/users', { ...body, email: 'y@example.com', role: 'admin' })).status, 201)
})
