/** Email verifications: a link proves that the user receives mail at the present address, or at a new one. */
import t from 'tap'
import { createAccounts, newAddress, PASSWORD } from '../../../testing/helpers/accounts.ts'
import { createClient, testApp } from '../../../testing/helpers/app.ts'
import { createSharedDatabase } from '../../../testing/helpers/database.ts'
import { createKeyHeader, getViolations } from '../../../testing/helpers/replies.ts'

const shared = await createSharedDatabase(t)
const api = await testApp(t, {}, { database: shared })
const { admin, anybody, app, base, database, person } = api
const { create, links, listMails, read, request, signIn, takeLink, unverify, verify, complete } =
  createAccounts(api)

/** Returns a user who is signed in, and whose address is not verified. */
async function signUp() {
  const user = await create()
  await unverify(user.id)
  const { access_token, refresh_token } = (await signIn(user.email)).body.data
  const own = createClient(base, { authorization: `Bearer ${access_token}` })
  const renew = () => anybody.post('/tokens', { grant_type: 'refresh_token', refresh_token })
  const verifyBy = (body = {}) => takeLink(own.post('/email-verifications', body))
  return { ...user, own, renew, verifyBy }
}

t.test('a link verifies the present address, once', async (t) => {
  const { id, email, own, renew, verifyBy } = await signUp()
  t.equal((await read(id)).email_verified_at, null)
  const { data, reply: _, ...link } = await verifyBy()
  t.match(data, { id: link.id, email, status: 'pending', expires_at: /Z$/ })
  t.same(Object.keys(data), ['id', 'email', 'status', 'expires_at'])
  const left = Date.parse(data.expires_at) - Date.now()
  t.ok(left > 86_340_000 && left < 86_460_000, '24 hours')
  t.match(link.token, /^[\w-]{43,}$/)
  const reply = await verify(link)
  t.equal(reply.status, 200, reply.text)
  t.same(reply.body.data, { ...data, status: 'completed' })
  t.equal(reply.headers.get('cache-control'), 'no-store')
  t.match((await read(id)).email_verified_at, /Z$/)
  t.equal((await verify(link)).status, 403)
  t.equal((await own.get('/users/me')).status, 200, 'sessions stay')
  t.equal((await renew()).status, 201)
})

t.test('version 2 has its form', async (t) => {
  const { own, email } = await signUp()
  const send = (attributes: object) =>
    own.post('/v2/email-verifications', { data: { type: 'email-verifications', attributes } })
  const link = await takeLink(send({}))
  const attributes = { email, status: 'pending' }
  t.match(link.data, { id: link.id, type: 'email-verifications', attributes })
  t.same(Object.keys(link.data.attributes), ['email', 'status', 'expires_at'])
  t.match((await verify(link, 2)).body.data, { id: link.id, attributes: { status: 'completed' } })
  t.same(getViolations(await send({ email: newAddress() })), ['data.attributes.current_password REQUIRED'])
})

t.test('a new address becomes the user’s at completion, and the former one hears of it', async (t) => {
  const { id, email, own, renew, verifyBy } = await signUp()
  const reset = await request(email)
  const next = newAddress()
  const link = await verifyBy({ email: next.toUpperCase(), current_password: PASSWORD })
  t.equal(link.data.email, next)
  t.equal((await read(id)).email, email, 'not before')
  t.equal((await verify(link)).status, 200)
  t.match(await read(id), { email: next, email_verified_at: /Z$/ })
  t.same(listMails(email), ['password-reset', 'email-changed'])
  t.equal((await signIn(email)).status, 401)
  t.equal((await signIn(next)).status, 201)
  t.equal((await own.get('/users/me')).status, 401, 'sessions end')
  t.equal((await renew()).status, 401)
  t.equal((await complete(reset)).status, 403, 'a reset of the former address is void')
  await app.events.assignAll()
  const events = await admin.get(`/events?resource_id=${id}&type=users.updated`)
  const change = { actor_id: id, credential: 'none', previous: { email }, data: { email: next } }
  t.match(events.body.data[0], change)
  t.notMatch(events.text, link.token)
})

t.test('a new address needs the current password', async (t) => {
  const { own, email } = await signUp()
  const missing = await own.post('/email-verifications', { email: newAddress() })
  t.equal(missing.status, 422)
  t.same(getViolations(missing), ['current_password REQUIRED'])
  const body = { email: newAddress(), current_password: 'not the right one' }
  t.equal((await own.post('/email-verifications', body)).status, 403)
  t.same(listMails(body.email), [])
  const present = await own.post('/email-verifications', { email: email.toUpperCase() })
  t.equal(present.status, 201, 'its own does not')
})

t.test('a wrong current password counts as a failed sign-in', async (t) => {
  const limited = await testApp(t, { LOGIN_FAILURES: '2' }, { database: shared })
  const accounts = createAccounts(limited)
  const { email, own } = await accounts.createSignedIn()
  for (const [current_password, status] of [
    ['not the right one', 403],
    ['not the right one', 403],
    [PASSWORD, 429],
  ] as const) {
    const body = { email: newAddress(), current_password }
    t.equal((await own.post('/email-verifications', body)).status, status)
  }
  t.equal((await accounts.signIn(email)).status, 429)
})

t.test('an address that is taken is a conflict at the completion only', async (t) => {
  const [ada, bob] = [await signUp(), await signUp()]
  const link = await ada.verifyBy({ email: bob.email, current_password: PASSWORD })
  for (const version of [1, 2]) {
    const reply = await verify(link, version)
    t.equal(reply.status, 409)
    t.same(getViolations(reply), ['email ALREADY_EXISTS'])
  }
  t.equal((await read(ada.id)).email, ada.email)
  await admin.delete(`/users/${bob.id}`)
  t.equal((await verify(link)).status, 200, 'the link can still be used')
})

t.test('an Idempotency-Key repeats the response, without a second mail', async (t) => {
  const { own, email } = await signUp()
  const key = createKeyHeader()
  const first = await own.post('/email-verifications', {}, key)
  const again = await own.post('/email-verifications', {}, key)
  t.same([first.status, again.status], [201, 201])
  t.equal(again.headers.get('idempotency-replayed'), 'true')
  t.same(again.body.data, first.body.data)
  t.same(listMails(email), ['email-verification'])
  const { status, body } = await own.post('/email-verifications', { email }, key)
  t.same([status, body.error.code], [422, 'IDEMPOTENCY_KEY_REUSED'])
  const stored = await database.run('select body from idempotency_keys')
  t.notMatch(JSON.stringify(stored), String(links.at(-1)?.token))
})

t.test('it needs a Bearer token', async (t) => {
  const { client } = await person('member')
  for (const [by, status] of [
    [anybody, 401],
    [client, 403],
    [admin, 403],
  ] as const)
    t.equal((await by.post('/email-verifications', {})).status, status)
})
