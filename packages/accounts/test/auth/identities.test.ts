/** A token of an identity provider authenticates the account that is linked to its subject, and no other. */
import t, { type Test } from 'tap'
import { createClient, type Reply, type TestApp, testApp } from '../../../testing/helpers/app.ts'
import { createSharedDatabase } from '../../../testing/helpers/database.ts'
import { getViolations } from '../../../testing/helpers/replies.ts'
import { stopClock } from '../../../testing/helpers/time.ts'
import { signToken, signUserToken, startProvider } from './identity-provider.ts'

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
async function start(test: Test) {
  const lines: string[] = []
  const logs = { write: (line: string) => void lines.push(line) }
  const settings = { ...provider.settings, LOG_LEVEL: 'warn', ALLOW_SIGNUP: 'true' }
  return { ...(await testApp(test, settings, { database, logs })), lines }
}

const app = await start(t)
const other = await start(t)

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

t.test('the first token links the account with its verified email, and later ones need none', async (t) => {
  const [email, otherEmail] = [newEmail(), newEmail()]
  const id = await createUser(app, email)
  const subject = `subject of ${email}`
  t.equal((await readMe(app, await signUserToken(subject, email.toUpperCase()))).body.data?.id, id)
  t.equal((await readMe(app, await signUserToken(subject))).body.data?.id, id, 'a token without an address')
  t.equal((await app.admin.patch(`/users/${id}`, { email: newEmail() })).status, 200)
  const otherId = await createUser(app, otherEmail)
  for (const each of [email, otherEmail])
    t.equal((await readMe(app, await signUserToken(subject, each))).body.data?.id, id)
  t.equal(await countLinks(otherId), 0)
  const admin = await readMe(app, await signUserToken('first admin', 'admin@example.com'))
  t.equal(admin.body.data?.id, app.adminId, 'the first admin is linked by ADMIN_EMAIL')
})

t.test('an account with an unverified email is not linked', async (t) => {
  const reject = async (email: string) => {
    const reply = await readMe(app, await signUserToken(`subject of ${email}`, email))
    isRefused(t, reply, app.lines, /not verified/)
  }
  const email = newEmail()
  const signedUp = await app.anybody.post('/users', { name: 'Mallory', email, password: PASSWORD })
  await reject(email)
  t.match(app.lines.at(-1), signedUp.body.data.id, 'the log names the user')
  t.equal(await countLinks(signedUp.body.data.id), 0)
  const { id: older } = await app.person('member')
  await reject((await app.admin.get(`/users/${older}`)).body.data.email)

  for (const role of ['member', 'admin']) {
    const [former, taken] = [newEmail(), newEmail()]
    const id = await createUser(app, former, { role, password: PASSWORD })
    const own = await signIn(app, former)
    t.equal((await own.patch('/users/me', { email: taken, current_password: PASSWORD })).status, 200)
    await reject(taken)
    const back = { name: 'Ada', email: former, current_password: PASSWORD }
    t.equal((await own.put('/users/me', back)).status, 200)
    await reject(former)
    t.equal((await app.admin.patch(`/users/${id}`, { email: taken })).status, 200)
    const linked = await readMe(app, await signUserToken(`subject of ${taken}`, taken))
    t.equal(linked.body.data?.id, id, 'until an admin sets the address')
  }
})

t.test('a token without an account is rejected, and the log says why', async (t) => {
  const email = newEmail()
  const id = await createUser(app, email)
  const refuse = async (claims: Record<string, unknown>, reason: RegExp) =>
    isRefused(t, await readMe(app, await signToken(claims)), app.lines, reason)

  const verified = { email, email_verified: true }
  await refuse({ ...verified, sub: 'a', email: 'unknown@example.com' }, /no user has the email address/)
  await refuse({ ...verified, sub: 'b', email_verified: false }, /no verified email address/)
  await refuse({ ...verified, sub: 'c', email_verified: 'true' }, /no verified email address/)
  await refuse({ sub: 'd' }, /no verified email address/)
  await refuse({ ...verified, sub: 'e', email: [email] }, /no verified email address/)
  for (const sub of [undefined, '', 'x'.repeat(256), 'nul\0', 'line\nbreak', 'é', 5])
    t.equal((await readMe(app, await signToken({ ...verified, sub }))).status, 401, JSON.stringify(sub))
  await app.admin.patch(`/users/${id}`, { status: 'suspended' })
  await refuse({ ...verified, sub: 'f' }, /the user is not active/)
  await app.admin.patch(`/users/${id}`, { status: 'active' })
  t.equal((await readMe(app, await signUserToken('x'.repeat(255), email))).status, 200)
  await refuse({ ...verified, sub: 'h' }, /the user is linked to another subject/)
  t.equal(await countLinks(id), 1)
})

t.test('a link holds while its user is inactive, and goes with the user', async (t) => {
  const email = newEmail()
  const id = await createUser(app, email)
  const token = await signUserToken(`subject of ${email}`, email)
  t.equal((await readMe(app, token)).body.data?.id, id)
  await app.admin.patch(`/users/${id}`, { status: 'inactive', email: newEmail() })
  const next = await createUser(app, email)
  isRefused(t, await readMe(app, token), app.lines, /the user is not active/)
  t.equal(await countLinks(next), 0, 'even if another account has the address')

  t.equal((await app.admin.delete(`/users/${id}`)).status, 204)
  t.equal((await readMe(app, await signUserToken(`subject of ${email}`))).status, 401)
  t.equal((await readMe(app, await signUserToken(`subject of ${email}`, newEmail()))).status, 401)
  t.equal((await readMe(app, token)).body.data?.id, next, 'the next account gets a new one')
  t.equal(await countLinks(next), 1)
})

t.test('a change in one process applies to provider tokens in another process within 5 s', async (t) => {
  const clock = stopClock(t)
  const email = newEmail()
  const id = await createUser(app, email, { role: 'manager' })
  const token = await signUserToken(`subject of ${email}`, email)
  const listUsers = async () => (await bearer(other, token).get('/users')).status
  t.equal(await listUsers(), 200)
  for (const [change, status] of [
    [{ role: 'member' }, 403],
    [{ status: 'suspended' }, 401],
  ] as const) {
    await app.admin.patch(`/users/${id}`, change)
    await clock.expireCaches(5_000)
    t.equal(await listUsers(), status)
  }
})

t.test('concurrent first tokens create one link', async (t) => {
  const apps = [app, other]
  for (let round = 0; round < 3; round++) {
    const email = newEmail()
    const id = await createUser(app, email)
    const tokens = await Promise.all([1, 2, 3].map((i) => signUserToken(`${email} ${i}`, email)))
    const replies = await Promise.all(apps.flatMap((each) => tokens.map((token) => readMe(each, token))))
    const accepted = replies.filter(({ status }) => status === 200)
    t.ok(accepted.length >= 1)
    t.ok(accepted.every(({ body }) => body.data.id === id))
    t.ok(replies.every(({ status }) => status === 200 || status === 401))
    t.equal(await countLinks(id), 1, 'of several subjects with one address, one is linked')

    const emails = [newEmail(), newEmail(), newEmail()]
    for (const each of emails) await createUser(app, each)
    const subject = `one of three, ${round}`
    const sent = emails.map(async (each, i) => readMe(apps[i % 2] ?? app, await signUserToken(subject, each)))
    const all = await Promise.all(sent)
    t.ok(all.every(({ status }) => status === 200))
    t.equal(new Set(all.map(({ body }) => body.data.id)).size, 1, 'one subject has one user')
    const links = await database.run('select 1 from user_identities where subject = $1', [subject])
    t.equal(links.length, 1)
  }
})

t.test('no request sets email_verified_at', async (t) => {
  const sent = { name: 'Ada', email: newEmail(), email_verified_at: '2026-01-01T00:00:00Z' }
  for (const client of [app.admin, app.anybody])
    t.same(getViolations(await client.post('/users', sent)), ['email_verified_at READ_ONLY'])
  for (const query of ['sort=email_verified_at', 'email_verified_at=true'])
    t.equal((await app.admin.get(`/users?${query}`)).status, 400, query)
})

t.test('an email that is not ASCII is rejected before case folding', async (t) => {
  const email = `k${newEmail()}`
  const id = await createUser(app, email, { password: PASSWORD })
  const lookalike = email.replace('k', KELVIN)
  t.equal(lookalike.toLowerCase(), email, 'the address that it would become')
  const grant = { grant_type: 'password', email: lookalike, password: PASSWORD }
  for (const [name, sent] of [
    ['a sign-up', app.anybody.post('/users', { name: 'Mallory', email: lookalike })],
    ['a change', app.admin.patch(`/users/${id}`, { email: lookalike })],
    ['a replacement', app.admin.put(`/users/${id}`, { name: 'Ada', email: lookalike })],
    ['a sign-in', app.anybody.post('/tokens', grant)],
  ] as const) {
    t.equal((await sent).status, 422, name)
    t.same(getViolations(await sent), ['email INVALID_FORMAT'], name)
  }
  t.equal((await app.anybody.post('/tokens', { ...grant, email: ` ${email}\n` })).status, 201, 'trimmed')
  const token = await signUserToken('kelvin', lookalike)
  isRefused(t, await readMe(app, token), app.lines, /no verified email address/)
  t.equal(await countLinks(id), 0)
})
