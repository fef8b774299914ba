/** Mails say that an account changed: a new password, address or API key, or a sign-in from a new IP address. */
import t from 'tap'
import { createAccounts, NEW_PASSWORD, newAddress, PASSWORD } from '../../../testing/helpers/accounts.ts'
import { createClient, testApp } from '../../../testing/helpers/app.ts'

const api = await testApp(t, { TRUST_PROXY: 'true' })
const { admin, anybody, base, database } = api
const { create, listMails: listNames, mails, unverify } = createAccounts(api)
const listMails = (address: string) => mails.filter(({ recipient }) => recipient === address)

const signIn = (email: string, ip: string) =>
  anybody.post('/tokens', { grant_type: 'password', email, password: PASSWORD }, { 'x-forwarded-for': ip })
const open = async (email: string) => {
  const { access_token } = (await signIn(email, '203.0.113.1')).body.data
  return createClient(base, { authorization: `Bearer ${access_token}`, 'x-forwarded-for': '203.0.113.1' })
}

t.test('a new password and a new address send a notice to the former address', async (t) => {
  const { id, email } = await create()
  const own = await open(email)
  await own.patch('/users/me', { password: NEW_PASSWORD, current_password: PASSWORD })
  const values = { ip: '203.0.113.1', time: /^\d{4}-\d\d-\d\d \d\d:\d\d UTC$/ }
  t.match(listMails(email), [{ template: 'password-changed', userId: id, values }])
  const next = newAddress()
  await own.patch('/users/me', { email: next, current_password: NEW_PASSWORD })
  t.same(listNames(email), ['password-changed', 'email-changed'])
  t.same(listNames(next), [])
  await admin.patch(`/users/${id}`, { name: 'Countess' })
  t.same(listNames(next), [], 'a name is no matter')
})

t.test('changes by batches and imports send notices', async (t) => {
  const { id, email } = await create()
  const path = `/users/${id}`
  const operations = [{ method: 'PATCH', path, body: { password: NEW_PASSWORD } }]
  t.equal((await admin.post('/batches', { operations })).status, 200)
  const next = newAddress()
  const imported = await admin.call('POST', '/users?on_conflict=email', {
    headers: { 'content-type': 'application/x-ndjson' },
    body: `${JSON.stringify({ name: 'Grace', email })}\n`,
  })
  t.equal(imported.status, 200, imported.text)
  await admin.put(path, { name: 'Ada', email: next })
  t.same(listNames(email), ['password-changed', 'email-changed'])
  const other = await create()
  t.equal((await admin.patch(path, { email: other.email })).status, 409)
  t.same(listNames(next), [], 'a change that is refused sends none')
  t.same(await database.run(`select id from work where payload ->> 'recipient' = $1`, [next]), [])
})

t.test('a new API key sends a notice', async (t) => {
  const { email } = await create()
  const own = await open(email)
  const reply = await own.post('/api-keys', { name: 'Export', scopes: ['products:read'] })
  t.match(listMails(email), [{ template: 'api-key-created', values: { key: 'Export', ip: '203.0.113.1' } }])
  t.notMatch(JSON.stringify(listMails(email)), reply.body.data.key)
})

t.test(
  'a sign-in from an address that was not seen for 30 days sends a notice, the first does not',
  async (t) => {
    const { email, id } = await create()
    const listAddresses = () => listMails(email).map(({ values }) => values?.ip)
    const AGE = `signed_in_at = now() - interval '31 days'`
    const [first, second] = ['203.0.113.1', '203.0.113.2']
    for (const [ip, addresses, what] of [
      [first, [], 'the first one'],
      [second, [second], 'another one'],
      [first, [second], 'a known one'],
      [second, [second], 'a known one'],
    ] as const) {
      await signIn(email, ip)
      t.same(listAddresses(), addresses, what)
    }
    await database.run(`update sign_in_addresses set ${AGE} where user_id = $1`, [id])
    await signIn(email, first)
    t.same(listAddresses(), [second, first], 'after more than 30 days')
    const wrong = { grant_type: 'password', email, password: 'not the right one' }
    await anybody.post('/tokens', wrong, { 'x-forwarded-for': '203.0.113.9' })
    t.equal(listAddresses().length, 2, 'a failure is no sign-in')
    const all = await Promise.all([1, 2, 3].map(() => signIn(email, '203.0.113.5')))
    for (const { status } of all) t.equal(status, 201)
    t.equal(listAddresses().length, 3, 'once for sign-ins at the same time')

    const other = await create()
    await database.run(`update users set created_at = now() - interval '31 days' where id = $1`, [other.id])
    await signIn(other.email, second)
    t.match(listMails(other.email), [{ template: 'new-sign-in', values: { ip: second } }], 'a late first one')
  },
)

t.test('an address in a notice is an IP address, whatever the client sends', async (t) => {
  const { id, email } = await create()
  const { access_token } = (await signIn(email, '203.0.113.1:1024')).body.data
  t.equal((await signIn(email, '203.0.113.1:1025')).status, 201)
  t.same(listNames(email), [], 'another port is the same address')
  const forged = 'your account is locked: call 0800 123456'
  const headers = { authorization: `Bearer ${access_token}`, 'x-forwarded-for': forged }
  const own = createClient(base, headers)
  const change = { password: NEW_PASSWORD, current_password: PASSWORD }
  t.equal((await own.patch('/users/me', change)).status, 200)
  t.match(listMails(email), [{ template: 'password-changed', userId: id, values: { ip: '127.0.0.1' } }])
})

t.test('an address that is not verified gets five notices an hour, without text of the user', async (t) => {
  const { email, id } = await create()
  await unverify(id)
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
