/** Limits of password resets: mails to an address, requests of a client, bodies; and what is not shown without mail, or in logs. */
import t from 'tap'
import { pruneAccounts } from '../../plugins/accounts/index.ts'
import { createAccounts, NEW_PASSWORD, readLinkRows } from '../helpers/accounts.ts'
import { type Json, testApp, UNKNOWN_ID } from '../helpers/app.ts'
import { createSharedDatabase } from '../helpers/database.ts'
import { createClientFrom } from '../helpers/replies.ts'

const shared = await createSharedDatabase(t)
const app = await testApp(t, {}, { database: shared })
const { anybody, database } = app
const accounts = createAccounts(app)

const countMails = () => accounts.links.length

t.test('of many requests for an address, five send a mail', async (t) => {
  const { email } = await accounts.create()
  const before = countMails()
  const ids = new Set<string>()
  const send = async (count: number) => {
    for (let i = 0; i < count; i++) {
      const { status, body } = await anybody.post('/password-resets', { email })
      if (status !== 201 || body.data.status !== 'pending')
        throw new Error(`${status} ${JSON.stringify(body)}`)
      ids.add(body.data.id)
    }
  }
  await Promise.all(Array.from({ length: 10 }, () => send(20)))
  t.equal(ids.size, 200)
  t.equal(countMails() - before, 5)
  t.equal((await readLinkRows(database, email)).length, 5)
  const [quota] = await database.run(
    'select cardinality(times) as count from mail_quotas where recipient = $1',
    [email],
  )
  t.equal(quota?.count, 5)

  // The first of the five links can be used, whatever was requested after it.
  const { id, token } = accounts.links[before] ?? { id: '', token: '' }
  t.equal((await accounts.complete(id, token)).status, 200)
})

t.test(
  'requests without credentials are limited by the address of the client, before their body is read',
  async (t) => {
    const limited = await testApp(
      t,
      { TRUST_PROXY: '127.0.0.1', RATE_LIMIT_ANONYMOUS: '3' },
      { database: shared },
    )
    const client = createClientFrom(limited.base, '203.0.113.7')
    const replies = [
      await client.post('/password-resets', {}),
      await client.patch(`/password-resets/${UNKNOWN_ID}`, { token: 'x', password: NEW_PASSWORD }),
      await client.patch(`/password-resets/${UNKNOWN_ID}`, '{'),
      await client.post('/password-resets', '{'),
      await client.patch(`/password-resets/${UNKNOWN_ID}`, '{'),
    ]
    t.strictSame(
      replies.map(({ status, headers }) => [status, headers.get('x-ratelimit-remaining')]),
      [
        [422, '2'],
        [403, '1'],
        [400, '0'],
        [429, '0'],
        [429, '0'],
      ],
    )
    t.equal((await createClientFrom(limited.base, '203.0.113.8').post('/password-resets', {})).status, 422)
  },
)

t.test('credentials are ignored, and a body has at most 16 KiB', async (t) => {
  const { email } = await accounts.create()
  t.equal((await app.admin.post('/password-resets', { email })).status, 201)
  t.equal((await anybody.post('/password-resets', { email }, { authorization: 'Bearer x' })).status, 201)
  const large = { email: 'a'.repeat(17_000) }
  t.equal((await app.admin.post('/password-resets', large)).status, 413)
  for (const [method, path] of [
    ['GET', '/password-resets'],
    ['GET', `/password-resets/${UNKNOWN_ID}`],
    ['PUT', `/password-resets/${UNKNOWN_ID}`],
    ['DELETE', `/password-resets/${UNKNOWN_ID}`],
  ] as const)
    t.equal((await anybody.call(method, path)).status, 405, `${method} ${path}`)
})

t.test('without mail, in production, the routes do not exist', async (t) => {
  const production = { NODE_ENV: 'production', INSECURE_HTTP: 'true' }
  const documentOf = async ({ anybody: client }: typeof app) => {
    const { paths, tags }: Json = (await client.get('/openapi/v1.json')).body
    return {
      paths: Object.keys(paths).filter((path) => path.includes('password-resets')),
      tags: tags.map(({ name }: Json) => name).filter((name: string) => name === 'password-resets'),
    }
  }
  const without = await testApp(t, production, { database: shared })
  t.equal((await without.anybody.post('/password-resets', { email: 'a@example.org' })).status, 404)
  t.equal((await without.anybody.patch(`/password-resets/${UNKNOWN_ID}`, {})).status, 404)
  t.same(await documentOf(without), { paths: [], tags: [] })

  const mail = { MAIL_URL: 'smtp://127.0.0.1:1', MAIL_FROM: 'noreply@example.com' }
  const configured = await testApp(t, { ...production, ...mail }, { database: shared })
  t.equal((await configured.anybody.post('/password-resets', { email: 'a@example.org' })).status, 201)
  t.equal((await documentOf(configured)).paths.length, 2)
})

t.test('no log line and no error has a token or a password', async (t) => {
  const lines: string[] = []
  const logs = { write: (line: string) => void lines.push(line) }
  // Outside production, the links are logged if no mail server is configured.
  const mail = { MAIL_URL: 'smtp://127.0.0.1:1', MAIL_FROM: 'noreply@example.com' }
  const logged = await testApp(t, { ...mail, LOG_LEVEL: 'trace' }, { database: shared, logs })
  const { complete, create, links, request } = createAccounts(logged)
  const { email } = await create()
  const { id, token } = await request(email)
  const replies = [
    await complete(id, token, { password: email }),
    await complete(id, `${token}canary`),
    await complete(id, token, { password: 'short-canary'.slice(6) }),
    await complete(id, token, { password: 'canary'.repeat(40) }),
    await logged.anybody.patch(`/password-resets/${id}`, { token: [token], password: { canary: 1 } }),
    await logged.anybody.patch(`/password-resets/${id}`, `{"token": "${token}"`),
    await complete(id, token),
    await complete(id, token),
  ]
  t.strictSame(
    replies.map(({ status }) => status),
    [422, 403, 422, 422, 422, 400, 200, 403],
  )
  t.equal(links.length, 1)
  t.ok(lines.length > 8)
  const shown = [...lines, ...replies.map(({ text }) => text)].join('\n')
  for (const secret of [token, 'canary', NEW_PASSWORD]) t.notOk(shown.includes(secret), secret)
})

t.test('links that have expired are deleted, and quotas with them', async (t) => {
  const [old, recent] = [await accounts.create(), await accounts.create()]
  for (const { email } of [old, recent]) await accounts.request(email)
  await database.run(`update account_links set expires_at = now() where email = $1`, [old.email])
  await database.run(`update mail_quotas set expires_at = now() - interval '1 minute' where recipient = $1`, [
    old.email,
  ])
  await pruneAccounts(database)
  const listRecipients = async (table: string, column: string) =>
    (await database.run(`select ${column} as email from ${table}`)).map(({ email }) => email)
  for (const emails of [
    await listRecipients('account_links', 'email'),
    await listRecipients('mail_quotas', 'recipient'),
  ]) {
    t.ok(emails.includes(recent.email))
    t.notOk(emails.includes(old.email))
  }
})
