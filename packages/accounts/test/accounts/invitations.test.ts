/** Invitations: the mail to a user whom an admin creates without a password. */
import t from 'tap'
import {
  createAccounts,
  NEW_PASSWORD,
  newAddress,
  PASSWORD,
  readLinkRows,
} from '../../../testing/helpers/accounts.ts'
import { testApp } from '../../../testing/helpers/app.ts'
import { getViolations } from '../../../testing/helpers/replies.ts'

const app = await testApp(t, { ALLOW_SIGNUP: 'true' })
const { admin, anybody, database } = app
const { complete, links, mails, request, signIn, takeLink } = createAccounts(app)

const name = 'Ada'
const DAY_MS = 86_400_000
const invite = (email: string) => takeLink(admin.post('/users', { name, email }))

t.test('a user whom an admin creates without a password is invited, and sets it', async (t) => {
  for (const version of [1, 2]) {
    const email = newAddress()
    const link = await takeLink(admin.post(`/v${version}/users`, { name, email, invite: true }))
    t.notMatch(link.reply.text, /invite"/)
    t.match(mails.at(-1), { template: 'invitation', recipient: email })
    const [row] = await readLinkRows(database, email)
    const lifetime = Date.parse(`${row?.expires_at}:00`) - Date.parse(`${row?.created_at}:00`)
    t.equal(lifetime, 7 * DAY_MS)
    t.equal((await complete(link)).status, 200)
    t.equal((await signIn(email, NEW_PASSWORD)).status, 201)
    const sent = mails.filter(({ recipient }) => recipient === email).map(({ template }) => template)
    t.same(sent, ['invitation'], 'and no mail that the password was changed')
  }
})

t.test('a first password beside an identity provider is a new way to sign in, and is mailed', async (t) => {
  const email = newAddress()
  const link = await invite(email)
  await database.run(
    `insert into user_identities (user_id, issuer, subject) select id, 'https://provider.example', $1 from users where email = $1`,
    [email],
  )
  t.equal((await complete(link)).status, 200)
  const sent = mails.filter(({ recipient }) => recipient === email).map(({ template }) => template)
  t.same(sent, ['invitation', 'password-changed'])
})

t.test('who is not invited', async (t) => {
  const newUser = (members = {}) => ({ name, email: newAddress(), ...members })
  const body = () => newUser({ invite: true })
  const operations = [1, 2].map(() => ({ method: 'POST', path: '/users', body: body() }))
  const csv = `name,email\nAda,${newAddress()}\nAda,${newAddress()}\n`
  const before = mails.length
  for (const [who, { status, text }] of Object.entries({
    'a user with a password': await admin.post('/users', newUser({ password: PASSWORD })),
    'with "invite": false': await admin.post('/users', newUser({ invite: false })),
    'a user who is not active': await admin.post('/users', newUser({ status: 'inactive' })),
    'a sign-up': await anybody.post('/users', newUser()),
    'users of a batch': await admin.post('/batches', { operations }),
    'users of an import': await admin.post('/users', csv, { 'content-type': 'text/csv' }),
  }))
    t.ok([200, 201].includes(status), `${who}: ${text}`)
  const sent = mails.slice(before).map(({ template }) => template)
  t.same(sent, ['email-verification'], 'of the sign-up')
  const rows = '{"name":"Ada","email":"row@example.org","invite":true}'
  const imported = await admin.post('/users', rows, { 'content-type': 'application/x-ndjson' })
  t.equal(imported.status, 422)
  t.same(getViolations(imported), ['rows.1.invite READ_ONLY'])
})

t.test('"invite" is for admins, and for creations', async (t) => {
  const signUp = { name, email: newAddress(), password: PASSWORD, invite: false }
  t.same(getViolations(await anybody.post('/users', signUp)), ['invite READ_ONLY'])
  const { id } = (await admin.post('/users', { name, email: signUp.email })).body.data
  t.same(getViolations(await admin.patch(`/users/${id}`, { invite: true })), ['invite UNKNOWN_FIELD'])
  const wrong = { name, email: newAddress(), invite: 'yes' }
  t.same(getViolations(await admin.post('/users', wrong)), ['invite INVALID_TYPE'])
})

t.test('an invitation and its user are created together, once', async (t) => {
  const email = newAddress()
  const before = links.length
  for (const replayed of [null, 'true']) {
    const reply = await admin.post('/users', { name, email }, { 'idempotency-key': 'invite-1' })
    t.equal(reply.status, 201)
    t.equal(reply.headers.get('idempotency-replayed'), replayed)
  }
  t.equal((await admin.post('/users', { name, email })).status, 409)
  const sent = links.slice(before).map(({ id }) => id)
  t.equal(sent.length, 1)
  const rows = await readLinkRows(database, email)
  t.strictSame(
    rows.map(({ id }) => id),
    sent,
  )
})

t.test('an address gets at most five invitations, and the users are created all the same', async (t) => {
  const email = newAddress()
  for (let i = 0; i < 5; i++) {
    const { data } = await invite(email)
    await admin.delete(`/users/${data.id}`)
  }
  const before = mails.length
  t.equal((await admin.post('/users', { name, email })).status, 201)
  t.equal(mails.length, before)
  t.equal((await complete(await request(email))).status, 200, 'a reset is of another purpose')
})

t.test('a request for a reset voids no invitation, a new password does', async (t) => {
  const email = newAddress()
  const invitation = await invite(email)
  const reset = await request(email)
  for (let i = 0; i < 5; i++) await anybody.post('/password-resets', { email })
  t.equal((await complete({ ...invitation, token: 'wrong' })).status, 403)
  t.equal((await complete(invitation)).status, 200)
  t.equal((await complete(reset)).status, 403, 'the password has changed')

  const other = newAddress()
  const first = await invite(other)
  t.equal((await complete(await request(other))).status, 200)
  t.equal((await complete(first)).status, 403, 'the password has changed')
})
