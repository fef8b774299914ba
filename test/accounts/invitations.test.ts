/** Invitations: the mail to a user whom an admin creates without a password. */
import t from 'tap'
import { createAccounts, NEW_PASSWORD, PASSWORD, readLinkRows } from '../helpers/accounts.ts'
import { testApp } from '../helpers/app.ts'
import { createSharedDatabase } from '../helpers/database.ts'

const shared = await createSharedDatabase(t)
const app = await testApp(t, { ALLOW_SIGNUP: 'true' }, { database: shared })
const { admin, anybody, database } = app
const { complete, links, request, signIn } = createAccounts(app)

let count = 0
const newEmail = () => {
  count += 1
  return `invited.${count}@example.org`
}

const DAY_MS = 86_400_000

/** Runs work. @returns the links in the mails that it enqueued */
async function collectLinks(work: () => Promise<unknown>) {
  const before = links.length
  await work()
  return links.slice(before)
}

t.test('a user whom an admin creates without a password is invited, and sets it', async (t) => {
  for (const version of [1, 2]) {
    const email = newEmail()
    const [link] = await collectLinks(async () => {
      const reply = await admin.post(`/v${version}/users`, { name: 'Ada', email, invite: true })
      t.equal(reply.status, 201, reply.text)
      t.notMatch(reply.text, /invite"/)
    })
    const [mail] = await database.run('select template, recipient from mails where link_id = $1', [
      link?.id ?? null,
    ])
    if (mail) t.match(mail, { template: 'invitation', recipient: email })
    const [row] = await readLinkRows(database, email)
    const lifetime = Date.parse(`${row?.expires_at}:00`) - Date.parse(`${row?.created_at}:00`)
    t.equal(lifetime, 7 * DAY_MS)
    t.equal((await complete(link?.id ?? '', link?.token ?? '')).status, 200)
    t.equal((await signIn(email, NEW_PASSWORD)).status, 201)
  }
})

t.test('who is not invited', async (t) => {
  const name = 'Ada'
  const users: Record<string, () => Promise<{ status: number; text: string }>> = {
    'a user with a password': () => admin.post('/users', { name, email: newEmail(), password: PASSWORD }),
    'with "invite": false': () => admin.post('/users', { name, email: newEmail(), invite: false }),
    'a user who is not active': () => admin.post('/users', { name, email: newEmail(), status: 'inactive' }),
    'a sign-up': () => anybody.post('/users', { name, email: newEmail() }),
    'users of a batch': () =>
      admin.post('/batches', {
        operations: Array.from({ length: 2 }, () => ({
          ...{ method: 'POST', path: '/users', body: { name, email: newEmail(), invite: true } },
        })),
      }),
    'users of an import': () =>
      admin.post('/users', `name,email\nAda,${newEmail()}\nAda,${newEmail()}\n`, {
        'content-type': 'text/csv',
      }),
  }
  for (const [who, create] of Object.entries(users)) {
    const sent = await collectLinks(async () => {
      const { status, text } = await create()
      t.ok([200, 201].includes(status), `${who}: ${text}`)
    })
    const invitations = await database.run(
      `select id from account_links where id = any($1::uuid[]) and kind = 'reset'`,
      [sent.map(({ id }) => id)],
    )
    t.same(invitations, [], who)
  }
  const rows = '{"name":"Ada","email":"row@example.org","invite":true}'
  const imported = await admin.post('/users', rows, { 'content-type': 'application/x-ndjson' })
  t.equal(imported.status, 422)
  t.match(imported.body.error.details, [{ field: 'rows.1.invite', code: 'READ_ONLY' }])
})

t.test('"invite" is for admins, and for creations', async (t) => {
  const email = newEmail()
  const signUp = await anybody.post('/users', { name: 'Ada', email, password: PASSWORD, invite: false })
  t.equal(signUp.status, 422)
  t.match(signUp.body.error.details, [{ field: 'invite', code: 'READ_ONLY' }])
  const { id } = (await admin.post('/users', { name: 'Ada', email })).body.data
  const change = await admin.patch(`/users/${id}`, { invite: true })
  t.match(change.body.error.details, [{ field: 'invite', code: 'UNKNOWN_FIELD' }])
  t.equal((await admin.post('/users', { name: 'Ada', email: newEmail(), invite: 'yes' })).status, 422)
})

t.test('an invitation and its user are created together, once', async (t) => {
  const email = newEmail()
  const header = { 'idempotency-key': 'invite-1' }
  const sent = await collectLinks(async () => {
    for (const replayed of [null, 'true']) {
      const reply = await admin.post('/users', { name: 'Ada', email }, header)
      t.equal(reply.status, 201)
      t.equal(reply.headers.get('idempotency-replayed'), replayed)
    }
    t.equal((await admin.post('/users', { name: 'Ada', email })).status, 409)
  })
  t.equal(sent.length, 1)
  t.strictSame(
    (await readLinkRows(database, email)).map(({ id }) => id),
    sent.map(({ id }) => id),
  )
})

t.test(
  'at most five invitations of seven days are sent to an address, and the users are created all the same',
  async (t) => {
    const email = newEmail()
    const sent = await collectLinks(async () => {
      for (let i = 0; i < 6; i++) {
        const reply = await admin.post('/users', { name: 'Ada', email })
        t.equal(reply.status, 201)
        if (i < 5) await admin.delete(`/users/${reply.body.data.id}`)
      }
    })
    t.equal(sent.length, 5)
    const { id, token } = await request(email)
    t.equal((await complete(id, token)).status, 200, 'a reset is of another purpose')
  },
)

t.test('a request for a reset voids no invitation, a new password does', async (t) => {
  const email = newEmail()
  const [invitation] = await collectLinks(() => admin.post('/users', { name: 'Ada', email }))
  for (let i = 0; i < 6; i++) await anybody.post('/password-resets', { email })
  t.equal((await complete(invitation?.id ?? '', 'wrong')).status, 403)
  const reset = links.at(-1)
  t.equal((await complete(invitation?.id ?? '', invitation?.token ?? '')).status, 200)
  t.equal((await complete(reset?.id ?? '', reset?.token ?? '')).status, 403, 'the password has changed')

  const other = newEmail()
  const [first] = await collectLinks(() => admin.post('/users', { name: 'Ada', email: other }))
  const { id, token } = await request(other)
  t.equal((await complete(id, token)).status, 200)
  t.equal((await complete(first?.id ?? '', first?.token ?? '')).status, 403, 'the password has changed')
})

t.test('without mail, nothing is sent', async (t) => {
  const production = { NODE_ENV: 'production', INSECURE_HTTP: 'true' }
  const without = await testApp(t, production, { database: shared })
  const email = newEmail()
  t.equal((await without.admin.post('/users', { name: 'Ada', email, invite: true })).status, 201)
  t.same(await readLinkRows(database, email), [])
})
