/** With mail, a sign-up does not say whether an address is known: the response is the same, and a mail says it. */
import t from 'tap'
import { createAccounts, newAddress, PASSWORD } from '../../../testing/helpers/accounts.ts'
import { type Client, type Reply, testApp } from '../../../testing/helpers/app.ts'

const api = await testApp(t, { ALLOW_SIGNUP: 'true' })
const { admin, anybody, app, database } = api
const { create, listMails } = createAccounts(api)
const { client: member } = await api.person('member')

const signUp = (client: Client, email: string, version = 1) =>
  client.post(`/v${version}/users`, { name: 'Ada', email, password: PASSWORD })

/** A reply without what differs between any two sign-ups: ids, times and the address. */
const shape = ({ status, headers, text }: Reply) => {
  const vague = (value: string) =>
    value
      .replaceAll(/[\da-f]{8}-[\da-f]{4}-[\da-f]{4}-[\da-f]{4}-[\da-f]{12}/g, 'ID')
      .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'TIME')
      .replaceAll(/[\w.-]+@example\.org/g, 'ADDRESS')
  const varying = ['date', 'x-ratelimit-remaining', 'x-ratelimit-reset', 'content-length']
  const kept = [...headers].filter(([name]) => !varying.includes(name))
  return { status, headers: kept.map(([name, value]) => [name, vague(value)]), text: vague(text) }
}

t.test('a known address is answered as an unknown one, and only what comes later reveals it', async (t) => {
  for (const version of [1, 2]) {
    const email = newAddress()
    const first = await signUp(anybody, email, version)
    t.equal(first.status, 201, first.text)
    const second = await signUp(anybody, email.toUpperCase(), version)
    t.same(shape(second), shape(first))
    t.equal(second.headers.get('content-length'), first.headers.get('content-length'))
    const { id } = second.body.data
    t.not(id, first.body.data.id)
    t.equal(second.headers.get('location'), `/v${version}/users/${id}`)
    t.match(second.headers.get('etag'), /^"1-/)
    t.same(listMails(email), ['email-verification', 'account-exists'])
    t.equal((await admin.get(`/users/${id}`)).status, 404, 'it was made up')
    t.equal((await member.get(`/users/${id}`)).status, 404)
    t.equal((await member.get(`/users/${first.body.data.id}`)).status, 403)
    t.equal((await admin.get(`/users/${first.body.data.id}`)).body.data.email_verified_at, null)
  }
})

t.test('nothing remains of a sign-up with a known address', async (t) => {
  const email = newAddress()
  await signUp(anybody, email)
  const count = async () => ({
    users: (await database.run('select id from users')).length,
    links: (await database.run('select id from account_links')).length,
    events: (await database.run('select id from events')).length,
  })
  await app.events.assignAll()
  const before = await count()
  await signUp(anybody, email)
  await app.events.assignAll()
  t.same(await count(), before)
})

t.test('the mail about a known account is sent at most five times an hour', async (t) => {
  const { email } = await create()
  for (let i = 0; i < 8; i++) t.equal((await signUp(anybody, email)).status, 201)
  t.equal(listMails(email).filter((template) => template === 'account-exists').length, 5)
})

t.test('of sign-ups at the same time, one creates the user', async (t) => {
  const email = newAddress()
  const replies = await Promise.all([1, 2, 3, 4].map(() => signUp(anybody, email)))
  for (const { status } of replies) t.equal(status, 201)
  t.equal((await admin.get(`/users?email=${email}`)).body.data.length, 1)
})

t.test('what is wrong with a body comes first, and an admin sees the conflict', async (t) => {
  const email = newAddress()
  await signUp(anybody, email)
  for (const known of [email, newAddress()]) {
    const { status, body } = await anybody.post('/users', { name: '', email: known, role: 'admin' })
    t.equal(status, 422)
    t.equal(body.error.details.length, 2)
  }
  t.equal((await signUp(admin, email)).status, 409)
})
