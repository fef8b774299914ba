/** `email_verified_at` says who proved to receive mail, and with REQUIRE_VERIFIED_EMAIL only they get credentials. */
import t from 'tap'
import { createAccounts, NEW_PASSWORD, newAddress, PASSWORD } from '../../../testing/helpers/accounts.ts'
import { createClient, testApp } from '../../../testing/helpers/app.ts'
import { createSharedDatabase } from '../../../testing/helpers/database.ts'

const shared = await createSharedDatabase(t)
const settings = { ALLOW_SIGNUP: 'true', REQUIRE_VERIFIED_EMAIL: 'true' }
const api = await testApp(t, settings, { database: shared })
const { admin, anybody, app, base } = api
const { complete, createSignedIn, read, request, signIn, takeLink, unverify, verify } = createAccounts(api)

const signUp = async () => {
  const body = { name: 'Ada', email: newAddress(), password: PASSWORD }
  const { data, ...link } = await takeLink(anybody.post('/users', body))
  return { id: String(data.id), email: body.email, link }
}
const refresh = async (refresh_token: string) =>
  (await anybody.post('/tokens', { grant_type: 'refresh_token', refresh_token })).status

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
  t.equal(await refresh(refresh_token), 403)
  t.equal(await refresh(refresh_token), 403, 'the session has not ended')
  t.equal(await refresh('rt_wrong'), 401)
  const own = createClient(base, { authorization: `Bearer ${access_token}` })
  await verify(await takeLink(own.post('/email-verifications', {})))
  t.equal(await refresh(refresh_token), 201)
  await unverify(id)
  t.equal(await refresh(refresh_token), 403, 'in the grace period too')
})

t.test('a new API key needs a verified address', async (t) => {
  const { id, own } = await createSignedIn()
  const body = { name: 'Export', scopes: ['products:read'] }
  const made = await own.post('/api-keys', body)
  t.equal(made.status, 201)
  await unverify(id)
  t.equal((await own.post('/api-keys', body)).status, 403)
  const machine = createClient(base, { 'x-api-key': made.body.data.key })
  t.equal((await machine.get('/products')).status, 200, 'older keys stay valid')
  t.equal((await admin.post('/api-keys', body)).status, 201, 'the first admin is verified')
})

t.test('an entry by an admin verifies an address, one by the user does not, a reset does', async (t) => {
  const { id, own } = await createSignedIn()
  const email = newAddress()
  const changed = await own.patch('/users/me', { email, current_password: PASSWORD })
  t.equal(changed.status, 200)
  t.equal(changed.body.data.email_verified_at, null)
  t.equal((await signIn(email)).status, 403)
  t.equal((await complete(await request(email))).status, 200)
  t.match((await read(id)).email_verified_at, /Z$/)
  t.equal((await signIn(email, NEW_PASSWORD)).status, 201)
  await unverify(id)
  const entered = await admin.patch(`/users/${id}`, { email: newAddress() })
  t.match(entered.body.data.email_verified_at, /Z$/)
  await app.events.assignAll()
  const events = (await admin.get(`/events?resource_id=${id}&type=users.updated&sort=position`)).body.data
  t.match(events[0], { data: { email_verified_at: null }, previous: { email_verified_at: /Z$/ } })
})

t.test('without the setting, an address need not be verified', async (t) => {
  const free = await testApp(t, { ALLOW_SIGNUP: 'true' }, { database: shared })
  const { email } = await signUp()
  const grant = { grant_type: 'password', email, password: PASSWORD }
  t.equal((await free.anybody.post('/tokens', grant)).status, 201)
})
