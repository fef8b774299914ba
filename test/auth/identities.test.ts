/** A token of an identity provider authenticates the account that is linked to its subject, and no other. */
import { setTimeout as wait } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { createClient, type Reply, type TestApp, testApp } from '../helpers/app.ts'
import { createSharedDatabase } from '../helpers/database.ts'
import { getViolations } from '../helpers/replies.ts'
import { ISSUER, signToken, signUserToken, startProvider } from './identity-provider.ts'

const provider = await startProvider(t)
const database = await createSharedDatabase(t)
const PASSWORD = 'correct horse battery'
const KELVIN = '\u212a'
let count = 0

const newEmail = () => `ada${count++}@example.com`

const bearer = ({ base }: Pick<TestApp, 'base'>, token: string) =>
  createClient(base, { authorization: `Bearer ${token}` })

const readMe = async (app: Pick<TestApp, 'base'>, token: string): Promise<Reply> =>
  bearer(app, token).get('/users/me')

/** Starts an app with the provider; `lines` are its log. */
async function start(test: Test, settings: Record<string, string> = {}) {
  const lines: string[] = []
  const logs = { write: (line: string) => void lines.push(line) }
  const all = { ...provider.settings, LOG_LEVEL: 'warn', ...settings }
  return { ...(await testApp(test, all, { database, logs })), lines }
}

/** Makes a user as an admin does. @returns the id */
async function createUser({ admin }: TestApp, email: string, members = {}): Promise<string> {
  const { body, text, status } = await admin.post('/users', { name: 'Ada', email, ...members })
  if (status !== 201) throw new Error(text)
  return String(body.data.id)
}

async function countLinks(userId: string): Promise<number> {
  return (await database.run('select 1 from user_identities where user_id = $1', [userId])).length
}

/** Signs a user in with the password. */
const signIn = async (app: TestApp, email: string) => {
  const grant = { grant_type: 'password', email, password: PASSWORD }
  return bearer(app, (await app.anybody.post('/tokens', grant)).body.data.access_token)
}

/** A reply says nothing but that the token is refused; the log says why. */
function isRefused(test: Test, reply: Reply, lines: readonly string[], reason: RegExp) {
  test.equal(reply.status, 401, reply.text)
  test.equal(reply.body.error.message, 'Invalid or expired token')
  test.match(lines.at(-1), reason)
}

t.test(
  'the first token links the account with its confirmed email, and later tokens need no email',
  async (t) => {
    const app = await start(t)
    const email = newEmail()
    const id = await createUser(app, email)
    const subject = `subject of ${email}`
    t.equal((await readMe(app, await signUserToken(subject, email.toUpperCase()))).body.data?.id, id)
    t.equal((await readMe(app, await signUserToken(subject))).body.data?.id, id, 'a token without an address')
    t.equal((await app.admin.patch(`/users/${id}`, { email: newEmail() })).status, 200)
    const otherEmail = newEmail()
    const other = await createUser(app, otherEmail)
    for (const each of [email, otherEmail]) {
      const reply = await readMe(app, await signUserToken(subject, each))
      t.equal(reply.body.data?.id, id, 'after a change of the address, and with that of another')
    }
    t.equal(await countLinks(other), 0)
  },
)

t.test('an account that signed up with the email of another is not linked to that person', async (t) => {
  const app = await start(t, { ALLOW_SIGNUP: 'true' })
  const email = newEmail()
  const made = await app.anybody.post('/users', { name: 'Mallory', email, password: PASSWORD })
  t.equal(made.status, 201)
  const token = await signUserToken(`subject of ${email}`, email)
  isRefused(t, await readMe(app, token), app.lines, /the e-mail address is not confirmed/)
  t.match(app.lines.at(-1), made.body.data.id, 'the log names the user')
  t.equal(await countLinks(made.body.data.id), 0)
})

t.test('an account that took the email of another person is not linked to that person', async (t) => {
  const app = await start(t)
  const [former, email] = [newEmail(), newEmail()]
  const id = await createUser(app, former, { password: PASSWORD })
  const own = await signIn(app, former)
  t.equal((await own.patch('/users/me', { email, current_password: PASSWORD })).status, 200)
  const token = await signUserToken(`subject of ${email}`, email)
  isRefused(t, await readMe(app, token), app.lines, /not confirmed/)
  const back = { name: 'Ada', email: former, current_password: PASSWORD }
  t.equal((await own.put('/users/me', back)).status, 200)
  isRefused(t, await readMe(app, await signUserToken('former', former)), app.lines, /not confirmed/)
  t.equal((await app.admin.patch(`/users/${id}`, { email })).status, 200)
  t.equal((await readMe(app, token)).body.data?.id, id, 'until an admin sets the address')
})

t.test("an admin's change of the own email does not confirm it", async (t) => {
  const app = await start(t)
  const [former, email] = [newEmail(), newEmail()]
  await createUser(app, former, { role: 'admin', password: PASSWORD })
  const own = await signIn(app, former)
  t.equal((await own.patch('/users/me', { email, current_password: PASSWORD })).status, 200)
  isRefused(t, await readMe(app, await signUserToken('admin', email)), app.lines, /not confirmed/)
})

t.test('an account with an unconfirmed email is not linked', async (t) => {
  const app = await start(t)
  const { id } = await app.person('member')
  const { email } = (await app.admin.get(`/users/${id}`)).body.data
  isRefused(t, await readMe(app, await signUserToken('older', email)), app.lines, /not confirmed/)
})

t.test('the first admin is linked by ADMIN_EMAIL', async (t) => {
  const app = await start(t)
  const linked = await readMe(app, await signUserToken('first admin', 'admin@example.com'))
  t.equal(linked.body.data?.id, app.adminId, linked.text)
})

t.test('a token without an account is rejected, and the log says why', async (t) => {
  const app = await start(t)
  const email = newEmail()
  const id = await createUser(app, email)
  const refuse = async (claims: Record<string, unknown>, reason: RegExp) =>
    isRefused(t, await readMe(app, await signToken(claims)), app.lines, reason)

  await refuse(
    { sub: 'a', email: 'nobody@example.com', email_verified: true },
    /no user has the e-mail address/,
  )
  await refuse({ sub: 'b', email, email_verified: false }, /no verified e-mail address/)
  await refuse({ sub: 'c', email, email_verified: 'true' }, /no verified e-mail address/)
  await refuse({ sub: 'd' }, /no verified e-mail address/)
  await refuse({ sub: 'e', email: [email], email_verified: true }, /no verified e-mail address/)
  await app.admin.patch(`/users/${id}`, { status: 'suspended' })
  await refuse({ sub: 'f', email, email_verified: true }, /the user is not active/)
  await app.admin.patch(`/users/${id}`, { status: 'active' })
  t.equal((await readMe(app, await signUserToken('g', email))).status, 200)
  await refuse({ sub: 'h', email, email_verified: true }, /the user is linked to another subject/)
  t.equal(await countLinks(id), 1)
})

t.test('an invalid subject is rejected with 401', async (t) => {
  const app = await start(t)
  const email = newEmail()
  await createUser(app, email)
  for (const sub of [undefined, '', 'x'.repeat(256), 'nul\0', 'line\nbreak', 'é', 5]) {
    const reply = await readMe(app, await signToken({ sub, email, email_verified: true }))
    t.equal(reply.status, 401, `${JSON.stringify(sub)}: ${reply.text}`)
  }
  t.equal((await readMe(app, await signUserToken('x'.repeat(255), email))).status, 200)
})

t.test('an inactive linked user is rejected, even if another account has the email', async (t) => {
  const app = await start(t)
  const email = newEmail()
  const id = await createUser(app, email)
  const token = await signUserToken(`subject of ${email}`, email)
  t.equal((await readMe(app, token)).status, 200)
  await app.admin.patch(`/users/${id}`, { status: 'inactive', email: newEmail() })
  const other = await createUser(app, email)
  isRefused(t, await readMe(app, token), app.lines, /the user is not active/)
  t.equal(await countLinks(other), 0)
})

t.test('deleting a user deletes the link, and the next account with the email gets a new one', async (t) => {
  const app = await start(t)
  const email = newEmail()
  const id = await createUser(app, email)
  const token = await signUserToken(`subject of ${email}`, email)
  t.equal((await readMe(app, token)).body.data?.id, id)
  t.equal((await app.admin.delete(`/users/${id}`)).status, 204)
  t.equal((await readMe(app, await signUserToken(`subject of ${email}`))).status, 401)
  const next = await createUser(app, email)
  t.equal((await readMe(app, await signUserToken(`subject of ${email}`, newEmail()))).status, 401)
  t.equal((await readMe(app, token)).status, 200)
  t.equal(await countLinks(next), 1)
})

t.test('a change in one process applies to provider tokens in another process', async (t) => {
  const [app, other] = [await start(t), await start(t)]
  const email = newEmail()
  const id = await createUser(app, email, { role: 'manager' })
  const token = await signUserToken(`subject of ${email}`, email)
  const listUsers = async () => (await bearer(other, token).get('/users')).status
  /** Asks again and again, until what was found before is no longer remembered. */
  const becomes = async (status: number) => {
    while ((await listUsers()) !== status) await wait(50)
  }
  t.equal(await listUsers(), 200)
  await app.admin.patch(`/users/${id}`, { role: 'member' })
  await becomes(403)
  await app.admin.patch(`/users/${id}`, { status: 'suspended' })
  await becomes(401)
})

t.test('concurrent first tokens create one link', async (t) => {
  const apps = await Promise.all([start(t), start(t), start(t)])
  const [app] = apps
  for (let round = 0; round < 10; round++) {
    const email = newEmail()
    const id = await createUser(app, email)
    const tokens = await Promise.all([1, 2, 3].map((i) => signUserToken(`${email} ${i}`, email)))
    const replies = await Promise.all(apps.flatMap((each) => tokens.map((token) => readMe(each, token))))
    const accepted = replies.filter(({ status }) => status === 200)
    t.ok(accepted.length >= 1, 'one subject is accepted')
    t.ok(accepted.every(({ body }) => body.data.id === id))
    t.ok(replies.every(({ status }) => status === 200 || status === 401))
    t.equal(await countLinks(id), 1, 'of several subjects with one address, one is linked')

    const users = await Promise.all(
      [1, 2, 3].map(async () => {
        const address = newEmail()
        return { address, id: await createUser(app, address) }
      }),
    )
    const subject = `one of three, ${round}`
    const all = await Promise.all(
      users.map(async ({ address }, i) => readMe(apps[i] ?? app, await signUserToken(subject, address))),
    )
    t.same(
      all.map(({ status }) => status),
      [200, 200, 200],
    )
    t.equal(
      new Set(all.map(({ body }) => body.data.id)).size,
      1,
      'one subject with several addresses has one user',
    )
    const links = await database.run('select 1 from user_identities where issuer = $1 and subject = $2', [
      ISSUER,
      subject,
    ])
    t.equal(links.length, 1)
  }
})

t.test('no reply shows whether an email is confirmed, and no request sets it', async (t) => {
  const app = await start(t, { ALLOW_SIGNUP: 'true' })
  const email = newEmail()
  const id = await createUser(app, email)
  for (const path of [`/v1/users/${id}`, `/v2/users/${id}`, '/v1/users?limit=100', '/v2/users?limit=100']) {
    t.notMatch((await app.admin.get(path)).text, /email_is_confirmed/, path)
  }
  const sent = { name: 'Ada', email: newEmail(), email_is_confirmed: true }
  for (const client of [app.admin, app.anybody]) {
    t.same(getViolations(await client.post('/users', sent)), ['email_is_confirmed UNKNOWN_FIELD'])
  }
  t.equal((await app.admin.get('/users?sort=email_is_confirmed')).status, 400)
  t.equal((await app.admin.get('/users?fields=email_is_confirmed')).status, 400)
  t.equal((await app.admin.get('/users?email_is_confirmed=true')).status, 400)
})

t.test('an email that is not ASCII is rejected before case folding', async (t) => {
  const app = await start(t, { ALLOW_SIGNUP: 'true' })
  const email = `k${newEmail()}`
  const id = await createUser(app, email, { password: PASSWORD })
  const lookalike = email.replace('k', KELVIN)
  t.equal(lookalike.toLowerCase(), email, 'the address that it would become')
  const other = await createUser(app, newEmail())
  const bodies: [string, Promise<Reply>][] = [
    ['sign-up', app.anybody.post('/users', { name: 'Mallory', email: lookalike })],
    ['a change', app.admin.patch(`/users/${other}`, { email: lookalike })],
    ['a replacement', app.admin.put(`/users/${other}`, { name: 'Ada', email: lookalike })],
    [
      'a sign-in',
      app.anybody.post('/tokens', { grant_type: 'password', email: lookalike, password: PASSWORD }),
    ],
  ]
  for (const [name, reply] of bodies) {
    t.equal((await reply).status, 422, name)
    t.same(getViolations(await reply), ['email INVALID_FORMAT'], name)
  }
  const spaced = await app.anybody.post('/tokens', {
    grant_type: 'password',
    email: ` ${email}\n`,
    password: PASSWORD,
  })
  t.equal(spaced.status, 201, 'white space is still trimmed')
  isRefused(
    t,
    await readMe(app, await signUserToken('kelvin', lookalike)),
    app.lines,
    /no verified e-mail address/,
  )
  t.equal(await countLinks(id), 0)
})
