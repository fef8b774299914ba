/** Password resets: what a link in a mail changes, and that no answer says which addresses are known. */
import t from 'tap'
import { createDatabase } from '../../../database/src/client/database.ts'
import type { DatabaseClient } from '../../../database/src/client/index.ts'
import { createAccounts, NEW_PASSWORD, PASSWORD, readLinkRows } from '../../../testing/helpers/accounts.ts'
import { createClient, type Json, type Reply, testApp, UNKNOWN_ID } from '../../../testing/helpers/app.ts'
import { createSharedDatabase } from '../../../testing/helpers/database.ts'
import { readChanges } from '../../../testing/helpers/events.ts'
import { getViolations } from '../../../testing/helpers/replies.ts'

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
    return work({ ...tx, run })
  }, options)
const own = createDatabase({ ...shared.$client, transaction })
const app = await testApp(t, {}, { database: own })
const { admin, anybody, base, database } = app
const accounts = createAccounts(app)
const { complete, create, createSession, createSignedIn, read, request, signIn } = accounts

/** What must not differ between replies: the status, the names of headers, and the body without ids and times. */
const toShape = ({ status, headers, text }: Reply) => ({
  status,
  headers: [...headers.keys()].sort(),
  text: text.replaceAll(/[0-9a-f-]{36}/g, 'ID').replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'TIME'),
})

const createKey = async (by: Awaited<ReturnType<typeof createSession>>) => {
  const { key } = (await by.post('/api-keys', { name: 'k', scopes: ['*'] })).body.data
  return createClient(base, { 'x-api-key': key })
}

const MINUTE_MS = 60_000

for (const version of [1, 2]) {
  const name = `a reset in version ${version} sets the password, verifies the address and ends all sessions`
  t.test(name, async (t) => {
    const { id, email, own: session } = await createSignedIn()
    const { email_verified_at: before } = await read(id)
    const key = await createKey(session)
    const wrap = (attributes: Json, resetId?: string) =>
      version === 1
        ? attributes
        : { data: { type: 'password-resets', ...(resetId && { id: resetId }), attributes } }
    const toMembers = ({ body: { data } }: Reply) =>
      version === 1 ? data : { id: data.id, ...data.attributes }

    const sent = wrap({ email: email.toUpperCase() })
    const requested = await accounts.takeLink(anybody.post(`/v${version}/password-resets`, sent))
    t.equal(requested.reply.headers.get('cache-control'), 'no-store')
    const reset = toMembers(requested.reply)
    t.strictSame(Object.keys(reset), ['id', 'status', 'expires_at'])
    t.equal(reset.status, 'pending')
    const lifetime = Date.parse(reset.expires_at) - Date.parse(requested.reply.body.meta.timestamp)
    t.ok(Math.abs(lifetime - 30 * MINUTE_MS) < MINUTE_MS, `${lifetime} ms`)
    t.equal(requested.id, reset.id)
    t.match(requested.token, /^[\w-]{43}$/)
    t.equal((await session.get('/users/me')).status, 200, 'a request ends no session')

    const body = { token: requested.token, password: NEW_PASSWORD }
    const completed = await anybody.patch(`/v${version}/password-resets/${reset.id}`, wrap(body, reset.id))
    t.equal(completed.status, 200, completed.text)
    t.strictSame(toMembers(completed), { ...reset, status: 'completed' })
    t.equal((await signIn(email, PASSWORD)).status, 401)
    t.equal((await signIn(email, NEW_PASSWORD)).status, 201)
    t.equal((await session.get('/users/me')).status, 401, 'the session has ended, in the cache too')
    t.equal((await key.get('/users/me')).status, 200, 'the key has not')
    t.ok((await read(id)).email_verified_at > before)
    t.same(await readLinkRows(database, email), [], 'the link is gone')
  })
}

t.test('revoke_api_keys deletes the API keys of the user too', async (t) => {
  const { email, own: session } = await createSignedIn()
  const key = await createKey(session)
  t.equal((await complete(await request(email), { revoke_api_keys: true })).status, 200)
  t.equal((await key.get('/users/me')).status, 401)
})

t.test('the first proof of an address leaves no way in to those who used the account before', async (t) => {
  const { id, email, own: stranger } = await createSignedIn()
  await accounts.unverify(id)
  const key = await createKey(stranger)
  const link = `insert into user_identities (user_id, issuer, subject) values ($1, 'https://id', 's')`
  const countIdentities = async () =>
    (await database.run('select subject from user_identities where user_id = $1', [id])).length
  await database.run(link, [id])
  t.equal((await complete(await request(email))).status, 200)
  for (const client of [stranger, key]) t.equal((await client.get('/users/me')).status, 401)
  t.equal((await signIn(email, PASSWORD)).status, 401)
  t.equal(await countIdentities(), 0)
  await database.run(link, [id])
  t.equal((await complete(await request(email))).status, 200)
  t.equal(await countIdentities(), 1)
})

t.test('the answers and the statements are the same for every address', async (t) => {
  const { email } = await create()
  const inactive = await create({ status: 'inactive' })
  const seen: unknown[] = []
  for (const address of [email, inactive.email, 'missing@example.org']) {
    transactions = []
    const shape = toShape(await anybody.post('/password-resets', { email: address }))
    const statements = transactions.filter(([first]) => first?.includes('mail_quotas'))
    t.strictSame(
      statements[0]?.map((each) => /mail_quotas|account_links|"work"/.exec(each)?.[0]),
      ['mail_quotas', 'account_links', '"work"'],
    )
    seen.push({ shape, statements })
  }
  for (const each of seen) t.strictSame(each, seen[0])
})

t.test('an Idempotency-Key changes nothing', async (t) => {
  const { email } = await create()
  const header = { 'idempotency-key': 'reset-1' }
  const replies = [1, 2].map(() => anybody.post('/password-resets', { email }, header))
  const requests = await Promise.all(replies)
  t.strictSame(
    requests.map(({ status, headers }) => [status, headers.get('idempotency-replayed')]),
    Array(2).fill([201, null]),
  )
  t.equal(new Set(requests.map(({ body }) => body.data.id)).size, 2)
  const { id, token } = accounts.links.at(-1) ?? { id: '', token: '' }
  const body = { token, password: NEW_PASSWORD }
  for (const status of [200, 403])
    t.equal((await anybody.patch(`/password-resets/${id}`, body, header)).status, status, 'it is used once')
})

t.test('a password that is refused leaves the link usable', async (t) => {
  const { email } = await create({ name: 'Ada Augusta King' })
  const link = await request(email)
  for (const password of [email.toUpperCase(), 'ada augusta king']) {
    const flat = await complete(link, { password })
    t.equal(flat.status, 422, flat.text)
    t.same(getViolations(flat), ['password INVALID_VALUE'])
    const typed = { data: { type: 'password-resets', attributes: { token: link.token, password } } }
    t.same(getViolations(await anybody.patch(`/v2/password-resets/${link.id}`, typed)), [
      'data.attributes.password INVALID_VALUE',
    ])
  }
  t.same(getViolations(await complete(link, { password: 'short' })), ['password TOO_SHORT'])
  t.same(getViolations(await complete(link, { extra: 1 })), ['extra UNKNOWN_FIELD'])
  t.equal((await signIn(email, PASSWORD)).status, 201, 'nothing has changed')
  t.equal((await complete(link)).status, 200)
})

t.test('credentials are ignored, a body has at most 16 KiB, and an address is one', async (t) => {
  const { email } = await create({ email: `o'hara+reset/{1}%_@example.org` })
  t.equal((await complete(await request(` ${email.toUpperCase()} `))).status, 200)
  t.equal((await admin.post('/password-resets', { email })).status, 201)
  t.equal((await anybody.post('/password-resets', { email }, { authorization: 'Bearer x' })).status, 201)
  t.equal((await admin.post('/password-resets', { email: 'a'.repeat(17_000) })).status, 413)
  const header = 'a@example.org\r\nBcc: b@c.de'
  for (const address of ['"a b"@example.org', 'ada@exämple.org', 'K\u212a@example.org', header, 'a', '']) {
    const reply = await anybody.post('/password-resets', { email: address })
    t.equal(reply.status, 422, address)
    t.match(reply.body.error.details, [{ field: 'email' }])
  }
  for (const [method, path] of [
    ['GET', '/password-resets'],
    ['GET', `/password-resets/${UNKNOWN_ID}`],
    ['PUT', `/password-resets/${UNKNOWN_ID}`],
    ['DELETE', `/password-resets/${UNKNOWN_ID}`],
  ] as const)
    t.equal((await anybody.call(method, path)).status, 405, `${method} ${path}`)
})

t.test('the changes are events of the user, without a credential and without secrets', async (t) => {
  const { id, email } = await createSignedIn()
  const link = await request(email)
  const body = { token: link.token, password: NEW_PASSWORD }
  await anybody.patch(`/password-resets/${link.id}`, body, { 'x-request-id': 'reset-events' })
  const origin = { actor_id: id, credential: 'none', credential_id: null, request_id: 'reset-events' }
  t.match((await readChanges(database, id)).at(-1), { type: 'users.updated', ...origin })
  const texts = JSON.stringify(await readChanges(database))
  t.match(texts, /sessions\.deleted/)
  for (const secret of [link.token, NEW_PASSWORD, 'password_hash']) t.notOk(texts.includes(secret), secret)
  for (const table of ['work', 'account_links'])
    t.notOk(JSON.stringify(await database.run(`select * from ${table}`)).includes(link.token), table)
})
