/** Mails say that an account changed: a new password, address or API key, or a sign-in from a new IP address. */
import t from 'tap'
import { createClient, testApp } from '../helpers/app.ts'
import { recordMails } from '../helpers/links.ts'
import { createUniqueName } from '../helpers/versioned-client.ts'

const PASSWORD = 'eleven brass cogs'
const newAddress = () => `${createUniqueName('ada')}@example.com`
const { admin, anybody, app, base, database } = await testApp(t, { TRUST_PROXY: 'true' })
const mails = recordMails(app)
const listMails = (address: string) => mails.filter(({ recipient }) => recipient === address)
const listNames = (address: string) => listMails(address).map(({ template }) => template)

async function createUser() {
  const email = newAddress()
  const { id } = (await admin.post('/users', { name: 'Ada', email, password: PASSWORD })).body.data
  return { id: String(id), email }
}
const signIn = (email: string, ip: string) =>
  anybody.post('/tokens', { grant_type: 'password', email, password: PASSWORD }, { 'x-forwarded-for': ip })
const open = async (email: string) => {
  const { access_token } = (await signIn(email, '203.0.113.1')).body.data
  return createClient(base, { authorization: `Bearer ${access_token}`, 'x-forwarded-for': '203.0.113.1' })
}

t.test('a new password and a new address send a notice to the former address', async (t) => {
  const { id, email } = await createUser()
  const own = await open(email)
  const password = 'quite another secret'
  await own.patch('/users/me', { password, current_password: PASSWORD })
  t.match(listMails(email), [
    {
      template: 'password-changed',
      userId: id,
      values: { ip: '203.0.113.1', time: /^\d{4}-\d\d-\d\d \d\d:\d\d UTC$/ },
    },
  ])
  const next = newAddress()
  await own.patch('/users/me', { email: next, current_password: password })
  t.same(listNames(email), ['password-changed', 'email-changed'])
  t.same(listNames(next), [])
  await admin.patch(`/users/${id}`, { name: 'Countess' })
  t.same(listNames(next), [], 'a name is no matter')
})

t.test('changes by batches and imports send notices', async (t) => {
  const { id, email } = await createUser()
  const path = `/users/${id}`
  const operations = [{ method: 'PATCH', path, body: { password: 'quite another secret' } }]
  t.equal((await admin.post('/batches', { operations })).status, 200)
  const next = newAddress()
  const imported = await admin.call('POST', '/users?on_conflict=email', {
    headers: { 'content-type': 'application/x-ndjson' },
    body: `${JSON.stringify({ name: 'Grace', email })}\n`,
  })
  t.equal(imported.status, 200, imported.text)
  await admin.put(path, { name: 'Ada', email: next })
  t.same(listNames(email), ['password-changed', 'email-changed'])
})

t.test('a change that is refused sends no notice', async (t) => {
  const { id, email } = await createUser()
  const other = await createUser()
  t.equal((await admin.patch(`/users/${id}`, { email: other.email })).status, 409)
  t.same(listNames(email), [])
  t.same(await database.run('select id from mails where recipient = $1', [email]), [])
})

t.test('a new API key sends a notice', async (t) => {
  const { email } = await createUser()
  const own = await open(email)
  const reply = await own.post('/api-keys', { name: 'Export', scopes: ['products:read'] })
  t.match(listMails(email), [{ template: 'api-key-created', values: { key: 'Export', ip: '203.0.113.1' } }])
  t.notMatch(JSON.stringify(listMails(email)), reply.body.data.key)
})

t.test(
  'a sign-in from an address that was not seen for 30 days sends a notice; the first sign-in does not',
  async (t) => {
    const { email, id } = await createUser()
    const listAddresses = () => listMails(email).map(({ values }) => values?.ip)
    await signIn(email, '203.0.113.1')
    t.same(listAddresses(), [], 'the first one')
    await signIn(email, '203.0.113.2')
    t.same(listAddresses(), ['203.0.113.2'])
    await signIn(email, '203.0.113.1')
    await signIn(email, '203.0.113.2')
    t.same(listAddresses(), ['203.0.113.2'], 'known ones')
    await database.run(
      `update sign_in_addresses set signed_in_at = now() - interval '31 days' where user_id = $1`,
      [id],
    )
    await signIn(email, '203.0.113.1')
    t.same(listAddresses(), ['203.0.113.2', '203.0.113.1'], 'after more than 30 days')
    const wrong = { grant_type: 'password', email, password: 'not the right one' }
    await anybody.post('/tokens', wrong, { 'x-forwarded-for': '203.0.113.9' })
    t.equal(listAddresses().length, 2, 'a failure is no sign-in')
    const all = await Promise.all([1, 2, 3].map(() => signIn(email, '203.0.113.5')))
    t.same(
      all.map(({ status }) => status),
      [201, 201, 201],
    )
    t.equal(listAddresses().length, 3, 'once for sign-ins at the same time')
  },
)

t.test('an address in a notice is an IP address, whatever the client sends', async (t) => {
  const { id, email } = await createUser()
  const { access_token } = (await signIn(email, '203.0.113.1:1024')).body.data
  t.equal((await signIn(email, '203.0.113.1:1025')).status, 201)
  t.same(listNames(email), [], 'another port is the same address')
  const forged = 'your account is locked: call 0800 123456'
  const headers = { authorization: `Bearer ${access_token}`, 'x-forwarded-for': forged }
  const own = createClient(base, headers)
  const change = { password: 'quite another secret', current_password: PASSWORD }
  t.equal((await own.patch('/users/me', change)).status, 200)
  t.match(listMails(email), [{ template: 'password-changed', userId: id, values: { ip: '127.0.0.1' } }])
})

t.test('a sign-in after more than 30 days without one sends a notice', async (t) => {
  const { email, id } = await createUser()
  await signIn(email, '203.0.113.1')
  await database.run('delete from sign_in_addresses where user_id = $1', [id])
  await database.run(`update users set created_at = now() - interval '31 days' where id = $1`, [id])
  await signIn(email, '203.0.113.2')
  t.match(listMails(email), [{ template: 'new-sign-in', values: { ip: '203.0.113.2' } }])
})

t.test('an address that is not verified gets five notices an hour, without text of the user', async (t) => {
  const { email, id } = await createUser()
  await database.run('update users set email_verified_at = null where id = $1', [id])
  const own = await open(email)
  const name = 'Go to https://evil.example'
  for (let i = 0; i < 7; i++)
    t.equal((await own.post('/api-keys', { name, scopes: ['products:read'] })).status, 201)
  t.same(listNames(email), Array(5).fill('api-key-created'))
  t.notMatch(JSON.stringify(listMails(email)), 'evil')
  await database.run('update users set email_verified_at = now() where id = $1', [id])
  for (let i = 0; i < 7; i++) await own.post('/api-keys', { name, scopes: ['products:read'] })
  t.equal(listNames(email).length, 12)
})
