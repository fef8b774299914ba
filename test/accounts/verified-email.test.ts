/** `email_verified_at` says who proved to receive mail, and with REQUIRE_VERIFIED_EMAIL only they get credentials. */
import t from 'tap'
import { createClient, testApp } from '../helpers/app.ts'
import { recordLinks } from '../helpers/links.ts'
import { createUniqueName } from '../helpers/versioned-client.ts'

const PASSWORD = 'eleven brass cogs'
const newAddress = () => `${createUniqueName('ada')}@example.com`
const settings = { ALLOW_SIGNUP: 'true', REQUIRE_VERIFIED_EMAIL: 'true' }
const { admin, anybody, app, base, database } = await testApp(t, settings)
const links = recordLinks(app)

const signUp = async () => {
  const email = newAddress()
  const reply = await anybody.post('/users', { name: 'Ada', email, password: PASSWORD })
  return { id: String(reply.body.data.id), email, link: links.at(-1) }
}
const signIn = (email: string, password = PASSWORD) =>
  anybody.post('/tokens', { grant_type: 'password', email, password })
const refresh = (refresh_token: string) =>
  anybody.post('/tokens', { grant_type: 'refresh_token', refresh_token })
const verify = (link?: { id: string; token: string }) =>
  anybody.patch(`/email-verifications/${link?.id}`, { token: link?.token })
const unverify = (id: string) => database.run('update users set email_verified_at = null where id = $1', [id])

t.test('a sign-up gets no token before its mail was used', async (t) => {
  const { email, link } = await signUp()
  const refused = await signIn(email)
  t.equal(refused.status, 403)
  t.match(refused.body.error, { code: 'FORBIDDEN', message: /not verified/ })
  t.equal((await signIn(email, 'not the right one')).status, 401, 'after a wrong password')
  t.equal((await verify(link)).status, 200)
  t.equal((await signIn(email)).status, 201)
})

t.test('a refresh is refused, and succeeds once the address is verified again', async (t) => {
  const { id, email, link } = await signUp()
  await verify(link)
  const { access_token, refresh_token } = (await signIn(email)).body.data
  await unverify(id)
  t.equal((await refresh(refresh_token)).status, 403)
  t.equal((await refresh(refresh_token)).status, 403, 'the session has not ended')
  t.equal((await refresh('rt_wrong')).status, 401)
  const own = createClient(base, { authorization: `Bearer ${access_token}` })
  t.equal((await own.post('/email-verifications', {})).status, 201)
  await verify(links.at(-1))
  const renewed = await refresh(refresh_token)
  t.equal(renewed.status, 201)
  await unverify(id)
  t.equal((await refresh(refresh_token)).status, 403, 'in the grace period too')
})

t.test('a new API key needs a verified address', async (t) => {
  const { id, email, link } = await signUp()
  await verify(link)
  const { access_token } = (await signIn(email)).body.data
  const own = createClient(base, { authorization: `Bearer ${access_token}` })
  const body = { name: 'Export', scopes: ['products:read'] }
  const made = await own.post('/api-keys', body)
  t.equal(made.status, 201)
  await unverify(id)
  t.equal((await own.post('/api-keys', body)).status, 403)
  const machine = createClient(base, { 'x-api-key': made.body.data.key })
  t.equal((await machine.get('/products')).status, 200, 'older keys stay valid')
  t.equal((await admin.post('/api-keys', body)).status, 201, 'the first admin is verified')
})

t.test('an entry by an admin verifies an address, one by the user does not', async (t) => {
  const email = newAddress()
  const { id } = (await admin.post('/users', { name: 'Ada', email, password: PASSWORD })).body.data
  const { access_token } = (await signIn(email)).body.data
  const own = createClient(base, { authorization: `Bearer ${access_token}` })
  const next = newAddress()
  const changed = await own.patch('/users/me', { email: next, current_password: PASSWORD })
  t.equal(changed.status, 200)
  t.equal(changed.body.data.email_verified_at, null)
  t.equal((await signIn(next)).status, 403)
  const entered = await admin.patch(`/users/${id}`, { email: newAddress() })
  t.match(entered.body.data.email_verified_at, /Z$/)
  await app.events.assignAll()
  const events = (await admin.get(`/events?resource_id=${id}&type=users.updated&sort=position`)).body.data
  t.match(events[0], { data: { email_verified_at: null }, previous: { email_verified_at: /Z$/ } })
})

t.test('a password reset verifies the address', async (t) => {
  const { id, email } = await signUp()
  await anybody.post('/password-resets', { email })
  const link = links.at(-1)
  const password = 'quite another secret'
  const reply = await anybody.patch(`/password-resets/${link?.id}`, { token: link?.token, password })
  t.equal(reply.status, 200, reply.text)
  t.match((await admin.get(`/users/${id}`)).body.data.email_verified_at, /Z$/)
  t.equal((await signIn(email, password)).status, 201)
})

t.test('without the setting, an address need not be verified', async (t) => {
  const free = await testApp(t, { ALLOW_SIGNUP: 'true' })
  const email = newAddress()
  await free.anybody.post('/users', { name: 'Ada', email, password: PASSWORD })
  const grant = { grant_type: 'password', email, password: PASSWORD }
  t.equal((await free.anybody.post('/tokens', grant)).status, 201)
})
