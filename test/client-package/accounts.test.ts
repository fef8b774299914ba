/** The client package requests and uses the links in mails, without credentials where the API needs none. */
import t from 'tap'
import { createClient, PermissionError, ValidationError } from '../../client/src/index.ts'
import { createAccounts, NEW_PASSWORD, PASSWORD } from '../helpers/accounts.ts'
import { testApp } from '../helpers/app.ts'
import { createSharedDatabase } from '../helpers/database.ts'

const app = await testApp(t, {}, { database: await createSharedDatabase(t) })
const { base: baseUrl, database } = app
const accounts = createAccounts(app)

t.test('a forgotten password is reset, by a client that cannot sign in', async (t) => {
  const { email } = await accounts.create()
  const client = createClient({ baseUrl, signIn: { email, password: 'forgotten' } })
  const reset = await client.passwordResets.create({ email })
  t.equal(reset.status, 'pending')
  const { id, token } = accounts.links.at(-1) ?? { id: '', token: '' }
  t.equal(id, reset.id)
  await t.rejects(client.passwordResets.complete(id, { token, password: 'short' }), ValidationError)
  const completed = await client.passwordResets.complete(id, { token, password: NEW_PASSWORD })
  t.same(completed, { ...reset, status: 'completed' })
  await t.rejects(client.passwordResets.complete(id, { token, password: NEW_PASSWORD }), PermissionError)
  const own = createClient({ baseUrl, signIn: { email, password: NEW_PASSWORD } })
  t.equal((await own.users.get('me')).email, email)
})

t.test('an address is verified', async (t) => {
  const { id: userId, email } = await accounts.create()
  await database.run('update users set email_verified_at = null where id = $1', [userId])
  const client = createClient({ baseUrl, signIn: { email, password: PASSWORD } })
  const verification = await client.emailVerifications.create({})
  t.match(verification, { email, status: 'pending' })
  const { id, token } = accounts.links.at(-1) ?? { id: '', token: '' }
  const completed = await createClient({ baseUrl }).emailVerifications.complete(id, { token })
  t.same(completed, { ...verification, status: 'completed' })
  t.ok((await client.users.get('me')).email_verified_at)
})

t.test('a link is used once, although the response is lost', async (t) => {
  const { email } = await accounts.create()
  const { id, token } = await accounts.request(email)
  let count = 0
  const client = createClient({
    baseUrl,
    fetch: async (...args) => {
      count++
      await fetch(...args)
      throw new TypeError('fetch failed')
    },
  })
  const lost = client.passwordResets.complete(id, { token, password: NEW_PASSWORD })
  await t.rejects(lost, { name: 'NetworkError' })
  t.equal(count, 1)
  t.equal((await accounts.signIn(email, NEW_PASSWORD)).status, 201)
})
