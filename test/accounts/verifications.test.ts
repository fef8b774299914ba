/** E-mail verifications: a link proves that the user receives mail at the present address, or at a new one. */
import t from 'tap'
import { createClient, type Json, testApp, UNKNOWN_ID } from '../helpers/app.ts'
import { recordLinks, recordMails } from '../helpers/links.ts'
import { createUniqueName } from '../helpers/versioned-client.ts'

const PASSWORD = 'eleven brass cogs'

const api = await testApp(t)
const { admin, anybody, app, base, database, person } = api
const links = recordLinks(app)
const mails = recordMails(app)
const newAddress = () => `${createUniqueName('ada')}@example.com`

/** Returns a user with a password who is signed in, and whose address is not verified. */
async function signUp(email = newAddress()) {
  const { id } = (await admin.post('/users', { name: 'Ada', email, password: PASSWORD })).body.data
  await database.run('update users set email_verified_at = null where id = $1', [id])
  const signIn = async (address: string, password = PASSWORD) =>
    anybody.post('/tokens', { grant_type: 'password', email: address, password })
  const { access_token, refresh_token } = (await signIn(email)).body.data
  const own = createClient(base, { authorization: `Bearer ${access_token}` })
  return { id: String(id), email, own, signIn, refresh_token }
}

const request = async (own: typeof admin, body: Json = {}) => {
  const reply = await own.post('/email-verifications', body)
  t.equal(reply.status, 201, reply.text)
  const link = links.at(-1)
  if (!link) throw new Error('No mail was enqueued')
  return { ...link, data: reply.body.data }
}
const complete = (id: string, token: string, version = 1) =>
  anybody.patch(`/v${version}/email-verifications/${id}`, { token })
const read = async (id: string) => (await admin.get(`/users/${id}`)).body.data
const listMails = (address: string) =>
  mails.filter(({ recipient }) => recipient === address).map(({ template }) => template)

t.test('a link verifies the present address, once', async (t) => {
  const { id, email, own, refresh_token } = await signUp()
  t.equal((await read(id)).email_verified_at, null)
  const link = await request(own)
  t.match(link.data, { id: link.id, email, status: 'pending', expires_at: /Z$/ })
  t.same(Object.keys(link.data), ['id', 'email', 'status', 'expires_at'])
  const left = Date.parse(link.data.expires_at) - Date.now()
  t.ok(left > 86_340_000 && left < 86_460_000, '24 hours')
  t.match(link.token, /^[\w-]{43,}$/)
  const reply = await complete(link.id, link.token)
  t.equal(reply.status, 200, reply.text)
  t.same(reply.body.data, { ...link.data, status: 'completed' })
  t.equal(reply.headers.get('cache-control'), 'no-store')
  t.match((await read(id)).email_verified_at, /Z$/)
  t.equal((await complete(link.id, link.token)).status, 403)
  t.equal((await own.get('/users/me')).status, 200, 'sessions stay')
  const renewed = await anybody.post('/tokens', { grant_type: 'refresh_token', refresh_token })
  t.equal(renewed.status, 201)
})

t.test('both versions have their form', async (t) => {
  const { own, email } = await signUp()
  const attributes = {}
  const { status, body } = await own.post('/v2/email-verifications', {
    data: { type: 'email-verifications', attributes },
  })
  t.equal(status, 201)
  t.match(body.data, { id: String, type: 'email-verifications', attributes: { email, status: 'pending' } })
  t.same(Object.keys(body.data.attributes), ['email', 'status', 'expires_at'])
  const link = links.at(-1)
  const done = await complete(String(link?.id), String(link?.token), 2)
  t.match(done.body.data, { id: link?.id, attributes: { status: 'completed' } })
  const wrong = await own.post('/v2/email-verifications', {
    data: { type: 'email-verifications', attributes: { email: newAddress() } },
  })
  t.match(wrong.body.error.errors, [{ field: 'data.attributes.current_password', code: 'REQUIRED' }])
})

t.test('a new address becomes the user’s at completion, and the former one hears of it', async (t) => {
  const { id, email, own, signIn, refresh_token } = await signUp()
  await own.post('/password-resets', { email })
  const reset = links.at(-1)
  const next = newAddress()
  const link = await request(own, { email: next.toUpperCase(), current_password: PASSWORD })
  t.equal(link.data.email, next)
  t.equal((await read(id)).email, email, 'not before')
  t.equal((await complete(link.id, link.token)).status, 200)
  const user = await read(id)
  t.equal(user.email, next)
  t.match(user.email_verified_at, /Z$/)
  t.same(listMails(email), ['password-reset', 'email-changed'])
  t.equal((await signIn(email)).status, 401)
  t.equal((await signIn(next)).status, 201)
  t.equal((await own.get('/users/me')).status, 401, 'sessions end')
  const renewed = await anybody.post('/tokens', { grant_type: 'refresh_token', refresh_token })
  t.equal(renewed.status, 401)
  const voided = await anybody.patch(`/password-resets/${reset?.id}`, {
    token: reset?.token,
    password: 'another long secret',
  })
  t.equal(voided.status, 403, 'a reset of the former address is void')
  await app.events.assignAll()
  const events = await admin.get(`/events?resource_id=${id}&type=users.updated`)
  const [event] = events.body.data
  t.match(event, { actor_id: id, credential: 'none', previous: { email }, data: { email: next } })
  t.notMatch(events.text, link.token)
})

t.test('a new address needs the current password', async (t) => {
  const { own, email } = await signUp()
  const missing = await own.post('/email-verifications', { email: newAddress() })
  t.equal(missing.status, 422)
  t.match(missing.body.error.details, [{ field: 'current_password', code: 'REQUIRED' }])
  const body = { email: newAddress(), current_password: 'not the right one' }
  t.equal((await own.post('/email-verifications', body)).status, 403)
  t.same(listMails(body.email), [])
  t.equal(
    (await own.post('/email-verifications', { email: email.toUpperCase() })).status,
    201,
    'its own does not',
  )
})

t.test('a wrong current password counts as a failed sign-in', async (t) => {
  const limited = await testApp(t, { LOGIN_FAILURES: '2' })
  const email = newAddress()
  await limited.admin.post('/users', { name: 'Ada', email, password: PASSWORD })
  const grant = { grant_type: 'password', email, password: PASSWORD }
  const { access_token } = (await limited.anybody.post('/tokens', grant)).body.data
  const own = createClient(limited.base, { authorization: `Bearer ${access_token}` })
  const body = { email: newAddress(), current_password: 'not the right one' }
  t.equal((await own.post('/email-verifications', body)).status, 403)
  t.equal((await own.post('/email-verifications', body)).status, 403)
  const full = await own.post('/email-verifications', { ...body, current_password: PASSWORD })
  t.equal(full.status, 429)
  t.equal((await limited.anybody.post('/tokens', grant)).status, 429)
})

t.test('an address that is taken is a conflict at the completion only', async (t) => {
  const [ada, bob] = [await signUp(), await signUp()]
  const link = await request(ada.own, { email: bob.email, current_password: PASSWORD })
  for (const version of [1, 2]) {
    const { status, body } = await complete(link.id, link.token, version)
    t.equal(status, 409)
    const [violation] = body.error.details ?? body.error.errors
    t.match(violation, { field: 'email', code: 'ALREADY_EXISTS' })
  }
  t.equal((await read(ada.id)).email, ada.email)
  await admin.delete(`/users/${bob.id}`)
  t.equal((await complete(link.id, link.token)).status, 200, 'the link can still be used')
})

t.test('a link that cannot be used is one and the same 403', async (t) => {
  const { own, id } = await signUp()
  const first = await request(own)
  t.equal((await complete(first.id, first.token)).status, 200)
  const second = await request(own)
  const expired = await request((await signUp()).own)
  await database.run(`update account_links set expires_at = now() where id = $1`, [expired.id])
  const inactive = await signUp()
  const ofInactive = await request(inactive.own)
  await admin.patch(`/users/${inactive.id}`, { status: 'inactive' })
  const replies = [
    await complete(first.id, first.token),
    await complete(second.id, first.token),
    await complete(UNKNOWN_ID, second.token),
    await complete(expired.id, expired.token),
    await complete(ofInactive.id, ofInactive.token),
  ]
  for (const { status, body } of replies) {
    t.equal(status, 403)
    t.same({ ...body.error, request_id: '' }, { ...replies[0]?.body.error, request_id: '' })
  }
  t.equal((await complete('1', first.token)).status, 404)
  t.equal((await complete(second.id, second.token)).status, 200)
  t.match((await read(id)).email_verified_at, /Z$/)
})

t.test('neither a later request for the address nor wrong tokens void a link', async (t) => {
  const { own, id } = await signUp()
  const link = await request(own)
  await request(own)
  for (let i = 0; i < 10; i++) t.equal((await complete(link.id, 'wrong')).status, 403)
  t.equal((await complete(link.id, link.token)).status, 200)
  t.match((await read(id)).email_verified_at, /Z$/)
})

t.test('a later request for another address voids a link', async (t) => {
  const { own, id, email } = await signUp()
  const [mistaken, wanted] = [newAddress(), newAddress()]
  const first = await request(own, { email: mistaken, current_password: PASSWORD })
  const second = await request(own, { email: wanted, current_password: PASSWORD })
  t.equal((await complete(first.id, first.token)).status, 403)
  const present = await request(own)
  t.equal((await complete(second.id, second.token)).status, 403, 'the user keeps the present address')
  t.equal((await complete(present.id, present.token)).status, 200)
  t.equal((await read(id)).email, email)
})

t.test('the requests of others for an address do not keep its user from verifying it', async (t) => {
  const [stranger, ada] = [await signUp(), await signUp()]
  const body = { email: ada.email, current_password: PASSWORD }
  for (let i = 0; i < 6; i++) t.equal((await stranger.own.post('/email-verifications', body)).status, 201)
  t.equal(listMails(ada.email).length, 5)
  const link = await request(ada.own)
  t.equal((await complete(link.id, link.token)).status, 200)
})

t.test('a change of the password voids a link to another address, and one of the address all', async (t) => {
  const { own, id } = await signUp()
  const foreign = await request(own, { email: newAddress(), current_password: PASSWORD })
  await admin.patch(`/users/${id}`, { password: 'quite another password' })
  t.equal((await complete(foreign.id, foreign.token)).status, 403)
  const other = await signUp()
  const present = await request(other.own)
  await admin.patch(`/users/${other.id}`, { password: 'quite another password' })
  t.equal((await complete(present.id, present.token)).status, 200, 'that of the present address stays')
  const third = await signUp()
  const former = await request(third.own)
  await admin.patch(`/users/${third.id}`, { email: newAddress() })
  t.equal((await complete(former.id, former.token)).status, 403)
})

t.test('one of two completions at the same time succeeds', async (t) => {
  const { own } = await signUp()
  const link = await request(own, { email: newAddress(), current_password: PASSWORD })
  const replies = await Promise.all([1, 2, 3].map(() => complete(link.id, link.token)))
  t.same(replies.map(({ status }) => status).sort(), [200, 403, 403])
})

t.test('an Idempotency-Key repeats the response, without a second mail', async (t) => {
  const { own, email } = await signUp()
  const key = { 'idempotency-key': createUniqueName('key') }
  const first = await own.post('/email-verifications', {}, key)
  const again = await own.post('/email-verifications', {}, key)
  t.same([first.status, again.status], [201, 201])
  t.equal(again.headers.get('idempotency-replayed'), 'true')
  t.same(again.body.data, first.body.data)
  t.same(listMails(email), ['email-verification'])
  const { status, body } = await own.post('/email-verifications', { email }, key)
  t.equal(status, 422)
  t.equal(body.error.code, 'IDEMPOTENCY_KEY_REUSED')
  const stored = await database.run('select body from idempotency_keys')
  t.notMatch(JSON.stringify(stored), String(links.at(-1)?.token))
})

t.test('it needs a Bearer token', async (t) => {
  const { client } = await person('member')
  t.equal((await anybody.post('/email-verifications', {})).status, 401)
  t.equal((await client.post('/email-verifications', {})).status, 403)
  t.equal((await admin.post('/email-verifications', {})).status, 403)
})

t.test('an address gets at most five links of a day', async (t) => {
  const { own, email } = await signUp()
  for (let i = 0; i < 5; i++) await request(own)
  const fifth = links.at(-1)
  const sixth = await own.post('/email-verifications', {})
  t.equal(sixth.status, 201)
  t.match(sixth.body.data, { email, status: 'pending' })
  t.equal(listMails(email).length, 5)
  t.equal((await complete(String(fifth?.id), String(fifth?.token))).status, 200, 'the fifth link stays')
})

t.test('without mail, the routes do not exist', async (t) => {
  const without = await testApp(t, {
    NODE_ENV: 'production',
    INSECURE_HTTP: 'true',
  })
  const { bearer } = await without.person('member')
  t.equal((await bearer.post('/email-verifications', {})).status, 404)
  t.equal((await without.anybody.patch(`/email-verifications/${UNKNOWN_ID}`, { token: 'x' })).status, 404)
  t.notMatch((await without.anybody.get('/openapi/v1.json')).text, 'email-verifications')
})
