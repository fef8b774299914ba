/** The links of mails: how many are sent, what voids one, and that those that cannot be used are answered alike. */
import t from 'tap'
import {
  createAccounts,
  NEW_PASSWORD,
  newAddress,
  PASSWORD,
  readLinkRows,
  WITHOUT_MAIL,
} from '../../../testing/helpers/accounts.ts'
import { type Client, type Json, type Reply, testApp, UNKNOWN_ID } from '../../../testing/helpers/app.ts'
import { createSharedDatabase } from '../../../testing/helpers/database.ts'
import { createClientFrom } from '../../../testing/helpers/replies.ts'
import { pruneAccounts } from '../../src/accounts/index.ts'

const shared = await createSharedDatabase(t)
const app = await testApp(t, {}, { database: shared })
const { admin, anybody, database } = app
const accounts = createAccounts(app)
const { complete, create, createSignedIn, listMails, request, signIn, takeLink, verify } = accounts

interface User {
  id: string
  email: string
  own: Client
}

const toNewAddress = (email = newAddress()) => ({ email, current_password: PASSWORD })

/** How a user gets each kind of link, and how it is used. */
const kinds = {
  reset: { send: ({ email }: User) => anybody.post('/password-resets', { email }), use: complete },
  present: { send: ({ own }: User) => own.post('/email-verifications', {}), use: verify },
  next: { send: ({ own }: User) => own.post('/email-verifications', toNewAddress()), use: verify },
} as const
type Kind = keyof typeof kinds

/** What must not differ between replies: the status, the names of headers, and the body without ids and times. */
const toShape = ({ status, headers, text }: Reply) => ({
  status,
  headers: [...headers.keys()].sort(),
  text: text.replaceAll(/[0-9a-f-]{36}/g, 'ID').replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'TIME'),
})

for (const [kind, { send, use }] of Object.entries(kinds))
  t.test(`every link that cannot be used is the same 403, and wrong tokens void none: ${kind}`, async (t) => {
    const newLink = async () => takeLink(send(await createSignedIn()))
    const used = await newLink()
    t.equal((await use(used)).status, 200)
    const expired = await newLink()
    await database.run(`update account_links set expires_at = now() where id = $1`, [expired.id])
    const suspended = await createSignedIn()
    const ofSuspended = await takeLink(send(suspended))
    await admin.patch(`/users/${suspended.id}`, { status: 'suspended' })
    const [good, other] = [await newLink(), await newLink()]
    const refused = [
      ...[used, expired, ofSuspended, { id: UNKNOWN_ID, token: good.token }],
      ...[
        { ...other, token: good.token },
        { ...good, token: 'x'.repeat(128) },
      ],
      ...Array.from({ length: 12 }, (_, i) => ({ ...good, token: `wrong-${i}` })),
      ...(kind === 'reset' ? [await request('missing.2@example.org')] : []),
    ]
    const replies = await Promise.all(refused.map((link) => use(link)))
    const [first] = replies
    t.match([first?.status, first?.body.error], [403, { code: 'FORBIDDEN', message: /link is invalid/ }])
    for (const reply of replies) t.strictSame(toShape(reply), first && toShape(first))
    t.equal((await use({ ...good, id: '1' })).status, 404)
    t.equal((await use(good)).status, 200)
  })

t.test('of several uses of a link at the same time, one succeeds', async (t) => {
  for (let i = 0; i < 5; i++) {
    const user = await createSignedIn()
    const next = await takeLink(kinds.next.send(user))
    const replies = await Promise.all([1, 2, 3].map(() => verify(next)))
    t.same(replies.map(({ status }) => status).sort(), [200, 403, 403])

    const { email } = await create()
    const reset = await request(email)
    const passwords = [`${NEW_PASSWORD} 1`, `${NEW_PASSWORD} 2`]
    const completed = await Promise.all(passwords.map((password) => complete(reset, { password })))
    t.same(completed.map(({ status }) => status).sort(), [200, 403])
    const won = completed.findIndex(({ status }) => status === 200)
    t.equal((await signIn(email, passwords[won])).status, 201)
  }
})

t.test('a completion and a change of the password at the same time do not both hold', async (t) => {
  for (let i = 0; i < 5; i++) {
    const { id, email } = await create()
    const link = await request(email)
    const password = `${PASSWORD} 2`
    const [completed, changed] = await Promise.all([
      complete(link),
      admin.patch(`/users/${id}`, { password }),
    ])
    t.equal(changed.status, 200, changed.text)
    t.ok([200, 403].includes(completed.status), completed.text)
    // The later of the two decides; a completion that comes later is refused.
    t.equal((await signIn(email, password)).status, 201)
  }
})

/** What happens after a link was sent, and the status of the use of each kind of link. */
const changes: [what: string, status: Partial<Record<Kind, number>>, work: (user: User) => unknown][] = [
  ['another reset is completed', { reset: 403 }, async ({ email }) => complete(await request(email))],
  [
    'the user changes the password',
    { reset: 403 },
    ({ own }) => own.patch('/users/me', { password: NEW_PASSWORD, current_password: PASSWORD }),
  ],
  [
    'an admin changes the password',
    { reset: 403, present: 200, next: 403 },
    ({ id }) => admin.patch(`/users/${id}`, { password: `${PASSWORD} 2` }),
  ],
  [
    'a batch changes the password',
    { reset: 403 },
    ({ id }) =>
      admin.post('/batches', {
        operations: [{ method: 'PATCH', path: `/users/${id}`, body: { password: NEW_PASSWORD } }],
      }),
  ],
  [
    'the address changes',
    { present: 403 },
    ({ id, email }) => admin.patch(`/users/${id}`, { email: `new.${email}` }),
  ],
  [
    'the address changes and is taken back',
    { reset: 403 },
    async ({ id, email }) => {
      await admin.patch(`/users/${id}`, { email: `other.${email}` })
      await admin.patch(`/users/${id}`, { email })
    },
  ],
  [
    'another user takes the address',
    { reset: 403 },
    async ({ id, email }) => {
      await admin.patch(`/users/${id}`, { email: `former.${email}` })
      await create({ email })
    },
  ],
  [
    'the user is inactive for a while',
    { reset: 403 },
    async ({ id }) => {
      await admin.patch(`/users/${id}`, { status: 'inactive' })
      await admin.patch(`/users/${id}`, { status: 'active' })
    },
  ],
  [
    'the user is deleted, and another one gets the address',
    { reset: 403 },
    async ({ id, email }) => {
      await admin.delete(`/users/${id}`)
      await create({ email })
    },
  ],
  ['another address is requested', { next: 403 }, (user) => kinds.next.send(user)],
  ['the present address is requested', { present: 200, next: 403 }, (user) => kinds.present.send(user)],
  ['a reset is requested', { reset: 200 }, (user) => kinds.reset.send(user)],
  [
    'the name changes',
    { reset: 200, present: 200, next: 200 },
    ({ id }) => admin.patch(`/users/${id}`, { name: 'Countess' }),
  ],
]

t.test('what voids a link, and what does not', async (t) => {
  for (const [what, expected, work] of changes)
    for (const [kind, status] of Object.entries(expected)) {
      const { send, use } = kinds[kind as Kind]
      const user = await createSignedIn()
      const link = await takeLink(send(user))
      await work(user)
      t.equal((await use(link)).status, status, `${kind}: ${what}`)
    }

  const moved = await create()
  const email = newAddress()
  const early = await request(email)
  await admin.patch(`/users/${moved.id}`, { email })
  t.equal((await complete(early)).status, 403, 'a request for an address before a user has it')
})

t.test('of many requests for an address five send a mail, and each of these links can be used', async (t) => {
  const { email } = await create()
  const before = accounts.links.length
  const replies = await Promise.all(
    Array.from({ length: 50 }, () => anybody.post('/password-resets', { email })),
  )
  for (const { status, body } of replies) t.match([status, body.data.status], [201, 'pending'])
  t.equal(new Set(replies.map(({ body }) => body.data.id)).size, 50)
  const links = accounts.links.slice(before)
  t.equal(links.length, 5)
  t.equal((await readLinkRows(database, email)).length, 5)
  const quota = 'select cardinality(times) as count from mail_quotas where recipient = $1'
  t.same(await database.run(quota, [email]), [{ count: 5 }])
  const [first, ...others] = links
  const unsent = replies.find(({ body }) => !links.some(({ id }) => id === body.data.id))
  t.equal((await complete({ id: unsent?.body.data.id, token: others[3]?.token ?? '' })).status, 403)
  t.equal(first && (await complete(first)).status, 200, 'the oldest one')
  for (const link of others) t.equal((await complete(link)).status, 403, 'void after it')
  t.equal((await complete(await request(email))).status, 200, 'the links that are void do not count')

  for (let i = 0; i < 5; i++) await request(email)
  await database.run(
    `update mail_quotas set times = array(select time - interval '30 minutes' from unnest(times) as time)
      where recipient = $1`,
    [email],
  )
  t.equal((await complete(await request(email))).status, 200, 'as soon as the oldest link has expired')
})

t.test('an address gets five verifications a day, and those of strangers do not count', async (t) => {
  const [stranger, ada] = [await createSignedIn(), await createSignedIn()]
  const foreign = toNewAddress(ada.email)
  for (let i = 0; i < 6; i++) t.equal((await stranger.own.post('/email-verifications', foreign)).status, 201)
  t.equal(listMails(ada.email).filter((template) => template === 'email-verification').length, 5)
  let link = await takeLink(kinds.present.send(ada))
  for (let i = 0; i < 4; i++) link = await takeLink(kinds.present.send(ada))
  const count = accounts.links.length
  const sixth = await kinds.present.send(ada)
  t.match([sixth.status, sixth.body.data], [201, { email: ada.email, status: 'pending' }])
  t.equal(accounts.links.length, count)
  t.equal((await verify(link)).status, 200, 'the fifth link stays')
})

t.test('requests without credentials are limited by address, before their body is read', async (t) => {
  const settings = { TRUST_PROXY: '127.0.0.1', RATE_LIMIT_ANONYMOUS: '3' }
  const { base } = await testApp(t, settings, { database: shared })
  const [client, other] = ['203.0.113.7', '203.0.113.8'].map((address) => createClientFrom(base, address))
  const path = `/password-resets/${UNKNOWN_ID}`
  for (const [status, remaining, method, address, body] of [
    [422, '2', 'POST', '/password-resets', {}],
    [403, '1', 'PATCH', path, { token: 'x', password: NEW_PASSWORD }],
    [400, '0', 'PATCH', path, '{'],
    [429, '0', 'POST', '/password-resets', '{'],
    [429, '0', 'PATCH', path, '{'],
  ] as const) {
    const reply = await client?.call(method, address, {
      body,
      headers: { 'content-type': 'application/json' },
    })
    t.same([reply?.status, reply?.headers.get('x-ratelimit-remaining')], [status, remaining])
  }
  t.equal((await other?.post('/password-resets', {}))?.status, 422)
})

t.test('without mail, in production, the routes do not exist, and nothing is sent', async (t) => {
  const listNames = async ({ anybody }: typeof app) => {
    const { paths, tags }: Json = (await anybody.get('/openapi/v1.json')).body
    const names = [...Object.keys(paths), ...tags.map(({ name }: Json) => name)]
    return names.filter((name) => /password-resets|email-verifications/.test(name))
  }
  const settings = { ...WITHOUT_MAIL, ALLOW_SIGNUP: 'true' }
  const without = await testApp(t, settings, { database: shared })
  const { bearer } = await without.person('member')
  for (const path of ['/password-resets', '/email-verifications']) {
    t.equal((await bearer.post(path, { email: 'a@example.org' })).status, 404, path)
    t.equal((await without.anybody.patch(`${path}/${UNKNOWN_ID}`, {})).status, 404, path)
  }
  t.same(await listNames(without), [])
  const user = { name: 'Ada', email: newAddress() }
  t.equal((await without.admin.post('/users', { ...user, invite: true })).status, 201)
  t.same(await readLinkRows(database, user.email), [])
  const signUp = { ...user, email: newAddress(), password: PASSWORD }
  for (const status of [201, 409])
    t.equal((await without.anybody.post('/users', signUp)).status, status, 'a known address is a conflict')
  t.same(
    await database.run(`select 1 from work where payload ->> 'recipient' in ($1, $2)`, [
      user.email,
      signUp.email,
    ]),
    [],
  )

  const mail = { MAIL_URL: 'smtp://127.0.0.1:1', MAIL_FROM: 'noreply@example.com' }
  const configured = await testApp(t, { ...WITHOUT_MAIL, ...mail }, { database: shared })
  t.equal((await configured.anybody.post('/password-resets', { email: 'a@example.org' })).status, 201)
  t.equal((await listNames(configured)).length, 6, 'two paths and a tag of each')
})

t.test('links that have expired are deleted, and quotas with them', async (t) => {
  const [old, recent] = [await create(), await create()]
  for (const { email } of [old, recent]) await request(email)
  const expire = (table: string, column: string) =>
    database.run(`update ${table} set expires_at = now() - interval '1 minute' where ${column} = $1`, [
      old.email,
    ])
  const tables = [
    ['account_links', 'email'],
    ['mail_quotas', 'recipient'],
  ] as const
  for (const [table, column] of tables) await expire(table, column)
  await pruneAccounts(database)
  for (const [table, column] of tables) {
    const emails = (await database.run(`select ${column} as email from ${table}`)).map(({ email }) => email)
    t.ok(emails.includes(recent.email))
    t.notOk(emails.includes(old.email))
  }
})
