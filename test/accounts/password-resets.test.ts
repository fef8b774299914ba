/** Password resets: what a link in a mail can do, once, and what voids it. */
import t from 'tap'
import { createDatabase } from '../../drizzle/client/database.ts'
import type { DatabaseClient } from '../../drizzle/client/index.ts'
import { createLink } from '../../plugins/accounts/links.ts'
import { createAccounts, NEW_PASSWORD, PASSWORD, readLinkRows } from '../helpers/accounts.ts'
import { createClient, type Json, type Reply, testApp, UNKNOWN_ID } from '../helpers/app.ts'
import { createMigratedDatabase, runCommand, withDatabaseAt } from '../helpers/command.ts'
import { createSharedDatabase } from '../helpers/database.ts'
import { readChanges } from '../helpers/events.ts'

/** The statements of each transaction. Those of background work run at the same time. */
let transactions: string[][] = []
const shared = await createSharedDatabase(t)
const transaction: DatabaseClient['transaction'] = (work, options) =>
  shared.$client.transaction((tx) => {
    const statements: string[] = []
    transactions.push(statements)
    const run: typeof tx.run = (text, ...rest) => {
      statements.push(text)
      return tx.run(text, ...rest)
    }
    return work({ run, savepoint: tx.savepoint })
  }, options)
const own = createDatabase({ ...shared.$client, transaction })
const app = await testApp(t, {}, { database: own })
const { admin, anybody, base, database } = app
const accounts = createAccounts(app)
const { complete, create, createSession, request, signIn } = accounts

/** What must not differ between replies: the status, the names of headers, and the body without ids and times. */
const toShape = ({ status, headers, text }: Reply) => ({
  status,
  headers: [...headers.keys()].sort(),
  text: text.replaceAll(/[0-9a-f-]{36}/g, 'ID').replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'TIME'),
})

const MINUTE_MS = 60_000

for (const version of [1, 2]) {
  t.test(
    `a reset in version ${version} sets the password, verifies the address and ends all sessions`,
    async (t) => {
      const { id, email } = await create()
      const { email_verified_at: before } = (await admin.get(`/users/${id}`)).body.data
      const session = await createSession(email)
      const { key } = (await session.post('/api-keys', { name: 'k', scopes: ['*'] })).body.data
      const wrap = (attributes: Json, resetId?: string) =>
        version === 1
          ? attributes
          : { data: { type: 'password-resets', ...(resetId && { id: resetId }), attributes } }
      const toMembers = ({ body: { data } }: Reply) =>
        version === 1 ? data : { id: data.id, ...data.attributes }

      const requested = await anybody.post(
        `/v${version}/password-resets`,
        wrap({ email: email.toUpperCase() }),
      )
      t.equal(requested.status, 201)
      t.equal(requested.headers.get('cache-control'), 'no-store')
      const reset = toMembers(requested)
      t.strictSame(Object.keys(reset), ['id', 'status', 'expires_at'])
      t.equal(reset.status, 'pending')
      const lifetime = Date.parse(reset.expires_at) - Date.parse(requested.body.meta.timestamp)
      t.ok(Math.abs(lifetime - 30 * MINUTE_MS) < MINUTE_MS, `${lifetime} ms`)
      const link = accounts.links.at(-1)
      t.equal(link?.id, reset.id)
      t.match(link?.token, /^[\w-]{43}$/)
      t.equal((await session.get('/users/me')).status, 200, 'a request ends no session')

      const body = { token: link?.token, password: NEW_PASSWORD }
      const completed = await anybody.patch(`/v${version}/password-resets/${reset.id}`, wrap(body, reset.id))
      t.equal(completed.status, 200, completed.text)
      t.strictSame(toMembers(completed), { ...reset, status: 'completed' })
      t.equal((await signIn(email, PASSWORD)).status, 401)
      t.equal((await signIn(email, NEW_PASSWORD)).status, 201)
      t.equal((await session.get('/users/me')).status, 401, 'the session has ended, in the cache too')
      t.equal(
        (await createClient(base, { 'x-api-key': key }).get('/users/me')).status,
        200,
        'the key has not',
      )
      t.ok((await admin.get(`/users/${id}`)).body.data.email_verified_at > before)
      t.same(await readLinkRows(database, email), [], 'the link is gone')
    },
  )
}

t.test('revoke_api_keys deletes the API keys of the user too', async (t) => {
  const { email } = await create()
  const session = await createSession(email)
  const { key } = (await session.post('/api-keys', { name: 'k', scopes: ['*'] })).body.data
  const { id, token } = await request(email)
  t.equal((await complete(id, token, { revoke_api_keys: true })).status, 200)
  t.equal((await createClient(base, { 'x-api-key': key }).get('/users/me')).status, 401)
})

t.test('the first proof of an address leaves no way in to those who used the account before', async (t) => {
  const { id: userId, email } = await create()
  await database.run('update users set email_verified_at = null where id = $1', [userId])
  const stranger = await createSession(email)
  const { key } = (await stranger.post('/api-keys', { name: 'k', scopes: ['*'] })).body.data
  await database.run(
    `insert into user_identities (user_id, issuer, subject) values ($1, 'https://id', 's')`,
    [userId],
  )
  const { id, token } = await request(email)
  t.equal((await complete(id, token)).status, 200)
  t.equal((await stranger.get('/users/me')).status, 401)
  t.equal((await signIn(email, PASSWORD)).status, 401)
  t.equal((await createClient(base, { 'x-api-key': key }).get('/users/me')).status, 401)
  t.same(await database.run('select subject from user_identities where user_id = $1', [userId]), [])
  const again = await request(email)
  await database.run(
    `insert into user_identities (user_id, issuer, subject) values ($1, 'https://id', 's')`,
    [userId],
  )
  t.equal((await complete(again.id, again.token)).status, 200)
  t.equal((await database.run('select 1 from user_identities where user_id = $1', [userId])).length, 1)
})

t.test('the answers and the statements are the same for every address', async (t) => {
  const active = await create()
  const inactive = await create({ status: 'inactive' })
  const addresses = [active.email, inactive.email, 'missing@example.org']
  const shapes: unknown[] = []
  const statements: string[][] = []
  for (const email of addresses) {
    transactions = []
    shapes.push(toShape(await anybody.post('/password-resets', { email })))
    statements.push(...transactions.filter(([first]) => first?.includes('mail_quotas')))
  }
  t.equal(statements.length, addresses.length)
  for (const shape of shapes.slice(1)) t.strictSame(shape, shapes[0])
  for (const each of statements.slice(1)) t.strictSame(each, statements[0])
  t.strictSame(
    statements[0]?.map((each) => /mail_quotas|account_links|mails/.exec(each)?.[0]),
    ['mail_quotas', 'account_links', 'mails'],
  )
})

t.test('every link that cannot be used is the same 403', async (t) => {
  const used = await request((await create()).email)
  t.equal((await complete(used.id, used.token)).status, 200)
  const expired = await request((await create()).email)
  await database.run(`update account_links set expires_at = now() where id = $1`, [expired.id])
  const [wrong, unknown] = [await request((await create()).email), await request('missing.2@example.org')]
  const inactive = await request((await create({ status: 'suspended' })).email)
  const [one, other] = [await request((await create()).email), await request((await create()).email)]
  const replies = [
    await complete(used.id, used.token),
    await complete(expired.id, expired.token),
    await complete(wrong.id, 'wrong'),
    await complete(wrong.id, 'x'.repeat(128)),
    await complete(UNKNOWN_ID, wrong.token),
    await complete(unknown.id, unknown.token),
    await complete(inactive.id, inactive.token),
    await complete(one.id, other.token),
  ]
  for (const reply of replies) t.strictSame(toShape(reply), toShape(replies[0] ?? reply))
  t.match(replies[0]?.body.error, { code: 'FORBIDDEN', message: /link is invalid/ })
  t.equal(replies[0]?.status, 403)
  t.equal((await complete(wrong.id, wrong.token)).status, 200, 'two wrong tokens do not void it')
})

t.test('no number of wrong tokens voids a link', async (t) => {
  const { id, token } = await request((await create()).email)
  const guesses = await Promise.all(Array.from({ length: 30 }, (_, i) => complete(id, `wrong-${i}`)))
  t.ok(guesses.every(({ status }) => status === 403))
  t.equal((await complete(id, token)).status, 200)
})

t.test('the requests of a stranger keep no user from a reset', async (t) => {
  const { email } = await create()
  const links = []
  for (let i = 0; i < 5; i++) links.push(await request(email))
  // A further one sends no mail: the user has five links, each of which can be used.
  const before = accounts.links.length
  const sixth = await anybody.post('/password-resets', { email })
  t.equal(sixth.status, 201)
  t.equal(accounts.links.length, before)
  t.equal((await complete(sixth.body.data.id, links[4]?.token ?? '')).status, 403)
  const [first, ...others] = links
  t.equal((await complete(first?.id ?? '', first?.token ?? '')).status, 200, 'the oldest one')
  for (const { id, token } of others) t.equal((await complete(id, token)).status, 403, 'void after it')
  const again = await request(email)
  t.equal((await complete(again.id, again.token)).status, 200, 'the links that are void do not count')

  // As soon as the oldest link has expired, the next request sends one.
  for (let i = 0; i < 5; i++) await request(email)
  await database.run(
    `update mail_quotas set times = array(select time - interval '30 minutes' from unnest(times) as time)
      where recipient = $1`,
    [email],
  )
  const later = await request(email)
  t.equal((await complete(later.id, later.token)).status, 200)
})

t.test('of two completions at the same time, one succeeds', async (t) => {
  for (let i = 0; i < 10; i++) {
    const { email } = await create()
    const { id, token } = await request(email)
    const passwords = [`${NEW_PASSWORD} 1`, `${NEW_PASSWORD} 2`]
    const replies = await Promise.all(passwords.map((password) => complete(id, token, { password })))
    const won = replies.findIndex(({ status }) => status === 200)
    t.strictSame(replies.map(({ status }) => status).sort(), [200, 403])
    t.equal((await signIn(email, passwords[won] ?? '')).status, 201)
  }
})

t.test('a completion and a change of the password at the same time do not both hold', async (t) => {
  for (let i = 0; i < 10; i++) {
    const { id: userId, email } = await create()
    const { id, token } = await request(email)
    const other = `${PASSWORD} 2`
    const [completed, changed] = await Promise.all([
      complete(id, token),
      admin.patch(`/users/${userId}`, { password: other }),
    ])
    t.equal(changed.status, 200, changed.text)
    t.ok([200, 403].includes(completed.status), completed.text)
    // The later of the two decides; a completion that comes later is refused.
    t.equal((await signIn(email, other)).status, 201)
  }
})

t.test('an Idempotency-Key changes nothing', async (t) => {
  const { email } = await create()
  const header = { 'idempotency-key': 'reset-1' }
  const requests = [
    await anybody.post('/password-resets', { email }, header),
    await anybody.post('/password-resets', { email }, header),
  ]
  t.strictSame(
    requests.map(({ status, headers }) => [status, headers.get('idempotency-replayed')]),
    Array(2).fill([201, null]),
  )
  t.not(requests[0]?.body.data.id, requests[1]?.body.data.id)
  const { id, token } = accounts.links.at(-1) ?? { id: '', token: '' }
  const body = { token, password: NEW_PASSWORD }
  t.equal((await anybody.patch(`/password-resets/${id}`, body, header)).status, 200)
  t.equal((await anybody.patch(`/password-resets/${id}`, body, header)).status, 403, 'it was used')
})

t.test('what voids a link', async (t) => {
  const voids: Record<string, (user: { id: string; email: string }) => Promise<unknown>> = {
    'another reset that is completed': async ({ email }) => {
      const { id, token } = await request(email)
      return complete(id, token)
    },
    "the user's own change of the password": async ({ email }) =>
      (await createSession(email)).patch('/users/me', { password: NEW_PASSWORD, current_password: PASSWORD }),
    'a change of the password by an admin': ({ id }) => admin.patch(`/users/${id}`, { password: PASSWORD }),
    'a change of the password in a batch': ({ id }) =>
      admin.post('/batches', {
        operations: [{ method: 'PATCH', path: `/users/${id}`, body: { password: NEW_PASSWORD } }],
      }),
    'a change of the address, also if it is taken back': async ({ id, email }) => {
      await admin.patch(`/users/${id}`, { email: `other.${email}` })
      return admin.patch(`/users/${id}`, { email })
    },
    'another user who takes the address': async ({ id, email }) => {
      await admin.patch(`/users/${id}`, { email: `former.${email}` })
      return create({ email })
    },
    'a deactivation, also if it is taken back': async ({ id }) => {
      await admin.patch(`/users/${id}`, { status: 'inactive' })
      return admin.patch(`/users/${id}`, { status: 'active' })
    },
    'a deletion, also if another user gets the address': async ({ id, email }) => {
      await admin.delete(`/users/${id}`)
      return create({ email })
    },
  }
  for (const [name, work] of Object.entries(voids)) {
    const user = await create()
    const { id, token } = await request(user.email)
    await work(user)
    t.equal((await complete(id, token)).status, 403, name)
  }

  const moved = await create()
  const taken = `taken.${moved.email}`
  const early = await request(taken)
  await admin.patch(`/users/${moved.id}`, { email: taken })
  t.equal(
    (await complete(early.id, early.token)).status,
    403,
    'a request for an address before a user has it',
  )

  const changed = await create()
  const kept = await request(changed.email)
  await admin.patch(`/users/${changed.id}`, { name: 'Countess' })
  t.equal((await complete(kept.id, kept.token)).status, 200, 'not a change of the name')
})

t.test('the command line voids links too', async (t) => {
  const settings = await createMigratedDatabase(t)
  const email = 'ada@example.com'
  const run = async (command: string, input = '') => {
    const { code, err } = await runCommand(t, command, settings, `${input}\n`)
    t.equal(code, 0, err)
  }
  await run(`users create --email ${email}`, PASSWORD)
  const commands: [command: string, input?: string][] = [
    [`users set-password ${email}`, NEW_PASSWORD],
    [`users set-status ${email} --status inactive`],
  ]
  for (const [command, input] of commands) {
    const link = { kind: 'reset', subject: email, email, lifetimeMs: MINUTE_MS } as const
    await withDatabaseAt(settings, (opened) => createLink(opened, link))
    await run(command, input)
    t.same(await withDatabaseAt(settings, (opened) => readLinkRows(opened, email)), [], command)
  }
})

t.test('a password that is refused leaves the link usable', async (t) => {
  const { email } = await create({ name: 'Ada Augusta King' })
  const { id, token } = await request(email)
  for (const password of [email.toUpperCase(), 'ada augusta king']) {
    const flat = await complete(id, token, { password })
    t.equal(flat.status, 422, flat.text)
    t.match(flat.body.error.details, [{ field: 'password', code: 'INVALID_VALUE' }])
    const attributes = { token, password }
    const typed = await anybody.patch(`/v2/password-resets/${id}`, {
      data: { type: 'password-resets', attributes },
    })
    t.match(typed.body.error.errors, [{ field: 'data.attributes.password', code: 'INVALID_VALUE' }])
  }
  t.match((await complete(id, token, { password: 'short' })).body.error.details, [{ code: 'TOO_SHORT' }])
  t.match((await complete(id, token, { extra: 1 })).body.error.details, [
    { field: 'extra', code: 'UNKNOWN_FIELD' },
  ])
  t.equal((await signIn(email, PASSWORD)).status, 201, 'nothing has changed')
  t.equal((await complete(id, token)).status, 200)
})

t.test('addresses with unusual characters', async (t) => {
  const { email } = await create({ email: `o'hara+reset/{1}%_@example.org` })
  const { id, token } = await request(` ${email.toUpperCase()} `)
  t.equal((await complete(id, token)).status, 200)
  const refused = [
    '"a b"@example.org',
    'ada@exämple.org',
    'K\u212a@example.org',
    'a@example.org\r\nBcc: b@c.de',
    'a',
    '',
  ]
  for (const address of refused) {
    const reply = await anybody.post('/password-resets', { email: address })
    t.equal(reply.status, 422, address)
    t.match(reply.body.error.details, [{ field: 'email' }])
  }
})

t.test('the changes are events of the user, without a credential and without secrets', async (t) => {
  const { id: userId, email } = await create()
  await createSession(email)
  const { id, token } = await request(email)
  const body = { token, password: NEW_PASSWORD }
  await anybody.patch(`/password-resets/${id}`, body, { 'x-request-id': 'reset-events' })
  const origin = { actor_id: userId, credential: 'none', credential_id: null, request_id: 'reset-events' }
  const changes = await readChanges(database, userId)
  t.match(changes.at(-1), { type: 'users.updated', ...origin })
  const texts = JSON.stringify(await readChanges(database))
  t.match(texts, /sessions\.deleted/)
  for (const secret of [token, NEW_PASSWORD, 'password_hash']) t.notOk(texts.includes(secret), secret)
  const rows = JSON.stringify([
    await database.run('select * from mails'),
    await database.run('select * from account_links'),
  ])
  t.notOk(rows.includes(token), 'no row has the token')
})
