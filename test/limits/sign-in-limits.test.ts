/** Rate limits of signing in: how many passwords may be tried, by whom, and what a refresh counts as. */

import t, { type Test } from 'tap'
import { createDatabase } from '../../drizzle/client/database.ts'
import type { PasswordHasher } from '../../plugins/auth/passwords.ts'
import { pruneSignIns } from '../../plugins/auth/sign-in-addresses.ts'
import { createClient, quickHasher, type Reply, type TestApp, testApp } from '../helpers/app.ts'
import { createSharedDatabase } from '../helpers/database.ts'
import { stopEventWork } from '../helpers/events.ts'
import { createClientFrom, formatWindow, readWindow, sendInSequence } from '../helpers/replies.ts'
import { createClock } from '../helpers/time.ts'

const database = await createSharedDatabase(t)
const RIGHT = 'correct horse battery'
const WRONG = 'wrong horse battery!'
let count = 0

interface Counting {
  app: TestApp
  time: ReturnType<typeof createClock>
  seen: { verified: number; fails: boolean }
}

const started = new Map<string, Counting>()

/**
 * An app whose verifications are counted from now on, on a clock that stands; proxies on this machine are believed.
 * Tests with the same settings share one: their accounts differ.
 */
async function counting(settings: Record<string, string>): Promise<Counting> {
  const key = JSON.stringify(settings)
  const known = started.get(key)
  if (known) {
    known.seen.verified = 0
    return known
  }
  const time = createClock()
  const seen = { verified: 0, fails: false }
  const passwordHasher: PasswordHasher = {
    ...quickHasher,
    async verify(hashed, password) {
      seen.verified++
      if (seen.fails) throw new Error('out of memory')
      return quickHasher.verify(hashed, password)
    },
  }
  const all = { TRUST_PROXY: '127.0.0.1', ...settings }
  const app = await testApp(t, all, { database, passwordHasher, now: time.now })
  const made = { app, time, seen }
  started.set(key, made)
  return made
}

async function account({ admin }: TestApp) {
  const email = `ada${count++}@example.com`
  const { body } = await admin.post('/users', { name: 'Ada', email, password: RIGHT })
  return { id: String(body.data.id), email }
}

const signIn = ({ base }: TestApp, email: string, password = RIGHT, address = '203.0.113.1') =>
  createClientFrom(base, address).post('/tokens', { grant_type: 'password', email, password })

const refresh = ({ base }: TestApp, refresh_token: string) =>
  createClientFrom(base, '203.0.113.1').post('/tokens', { grant_type: 'refresh_token', refresh_token })

/** Signs in and returns a client with the session, at an address. */
async function createSignedIn(app: TestApp, email: string, address = '203.0.113.1') {
  const { access_token } = (await signIn(app, email, RIGHT, address)).body.data
  return createClientFrom(app.base, address, { authorization: `Bearer ${access_token}` })
}

const statuses = (replies: { status: number }[]) => replies.map(({ status }) => status)

/** Fills the account-wide window from ten addresses. */
async function attack(app: TestApp, email: string) {
  const replies = await sendInSequence(10, (i) => signIn(app, email, WRONG, `198.51.100.${i}`))
  t.same(statuses(replies), Array(10).fill(401))
}

const HOME = '192.0.2.1'
const isRefusedFor15Minutes = (t: Test, reply: Reply, window: string, seconds: number) => {
  t.equal(formatWindow(reply), window)
  t.match(readWindow(reply), { retryAfter: 900, reset: seconds + 900 })
}

t.test('a port in X-Forwarded-For does not make another address', async (t) => {
  const { app } = await counting({ RATE_LIMIT_TOKENS: '100', LOGIN_FAILURES: '5' })
  const { email } = await account(app)
  for (const write of [
    (port: number) => `203.0.113.20:${port}`,
    (port: number) => `[2001:db8::20]:${port}`,
    (port: number) => `"[2001:db8:0:1::20]:${port}"`,
    // What is no address counts as that of the proxy.
    (port: number) => `unknown${port}`,
  ]) {
    const replies = await sendInSequence(6, (i) => signIn(app, email, WRONG, write(1024 + i)))
    t.same(statuses(replies), [401, 401, 401, 401, 401, 429], write(0))
  }
})

t.test(
  'password grants of an IP address are limited per minute; further ones are not verified',
  async (t) => {
    const { app, time, seen } = await counting({ RATE_LIMIT_TOKENS: '3' })
    const { email } = await account(app)
    t.equal(formatWindow(await signIn(app, email)), '201 3 2')
    for (const who of [email, 'unknown@example.com'])
      t.equal(
        formatWindow(await signIn(app, who, WRONG)),
        '401 1000000000 1000000000',
        'the 401 has the headers of every other',
      )
    const refused = await signIn(app, email)
    t.equal(formatWindow(refused), '429 3 0')
    t.match(readWindow(refused), { retryAfter: 60, reset: time.seconds() + 60 })
    t.match(refused.body.error, { code: 'RATE_LIMIT_EXCEEDED' })
    t.equal(seen.verified, 3)
    t.equal((await signIn(app, email, RIGHT, '203.0.113.2')).status, 201, 'another address has its own')
    time.pass(60_000)
    t.equal(formatWindow(await signIn(app, email)), '201 3 2')
  },
)

t.test('of 100 concurrent wrong passwords only as many are verified as may fail', async (t) => {
  const { app, time, seen } = await counting({ LOGIN_FAILURES: '5' })
  const { email } = await account(app)
  const replies = statuses(await Promise.all(Array.from({ length: 100 }, () => signIn(app, email, WRONG))))
  t.same(replies.sort(), [...Array(5).fill(401), ...Array(95).fill(429)])
  isRefusedFor15Minutes(t, await signIn(app, email), '429 5 0', time.seconds())
  t.equal((await signIn(app, email.toUpperCase())).status, 429, 'in any letter case')
  t.equal(seen.verified, 5, 'further ones, right or wrong, are not verified')
  t.equal((await signIn(app, email, RIGHT, '203.0.113.2')).status, 201, 'another address')
  t.equal((await signIn(app, (await account(app)).email)).status, 201, 'another account')
  time.pass(900_000)
  t.equal((await signIn(app, email)).status, 201)
})

t.test('an unknown account is refused like an existing one', async (t) => {
  const { app } = await counting({ LOGIN_FAILURES: '2' })
  const describeRefusals = async (email: string) =>
    (await sendInSequence(4, () => signIn(app, email, WRONG))).map((reply) => [
      formatWindow(reply),
      reply.body.error.message,
      readWindow(reply).retryAfter,
    ])
  const known = await describeRefusals((await account(app)).email)
  t.same(known, await describeRefusals('unknown.too@example.com'))
})

t.test('ten times as many sign-ins may fail from all IP addresses together', async (t) => {
  const { app, time, seen } = await counting({ LOGIN_FAILURES: '1' })
  const { email } = await account(app)
  await attack(app, email)
  isRefusedFor15Minutes(t, await signIn(app, email, RIGHT, '198.51.100.99'), '429 10 0', time.seconds())
  t.equal(seen.verified, 10)
})

t.test('only wrong passwords are failures', async (t) => {
  const { app, seen } = await counting({ LOGIN_FAILURES: '1' })
  const { email } = await account(app)
  t.same(statuses(await sendInSequence(3, () => signIn(app, email))), [201, 201, 201])
  const all = await Promise.all(Array.from({ length: 12 }, () => signIn(app, email)))
  t.same(statuses(all), Array(12).fill(201), 'concurrent right ones')
  seen.fails = true
  t.same(statuses(await sendInSequence(3, () => signIn(app, email, WRONG))), [500, 500, 500])
  seen.fails = false
  t.equal((await signIn(app, email, WRONG)).status, 401)
  t.equal((await signIn(app, email)).status, 429)
})

t.test('a wrong current_password is a failed sign-in', async (t) => {
  const { app, seen } = await counting({ LOGIN_FAILURES: '3', RATE_LIMIT: '100' })
  const { email } = await account(app)
  const ada = await createSignedIn(app, email)
  const change = (current_password: string) =>
    ada.patch('/users/me', { password: 'quite another password', current_password })
  seen.verified = 0
  t.equal((await signIn(app, email, WRONG)).status, 401)
  t.same((await sendInSequence(2, () => change(WRONG))).map(formatWindow), ['403 100 99', '403 100 98'])
  t.equal(formatWindow(await change(RIGHT)), '429 3 0')
  const changed = { name: 'Ada', email: 'b@example.com', current_password: RIGHT }
  t.equal((await ada.put('/users/me', changed)).status, 429)
  t.equal((await signIn(app, email)).status, 429)
  t.equal(seen.verified, 3)
  t.equal((await ada.patch('/users/me', { name: 'Countess' })).status, 200, 'a change without password')
})

t.test('a user changes the own password or email at most 10 times in 15 minutes', async (t) => {
  const { app, time, seen } = await counting({})
  const bob = await account(app)
  const { id, email } = await account(app)
  const ada = await createSignedIn(app, email)
  let current = RIGHT
  let made = 0
  const changePassword = async () => {
    const password = `password number ${++made}`
    const reply = await ada.patch('/users/me', { password, current_password: current })
    if (reply.status === 200) current = password
    return reply
  }
  const changeEmail = () =>
    ada.patch('/users/me', { email: `ada.${++made}@example.org`, current_password: current })
  const wrong = () => ada.patch('/users/me', { password: 'never set at all', current_password: WRONG })

  t.same(statuses(await sendInSequence(3, wrong)), [403, 403, 403], 'wrong ones do not count here')
  t.same(statuses(await sendInSequence(5, changePassword)), Array(5).fill(200))
  t.same(statuses(await sendInSequence(5, changeEmail)), Array(5).fill(200))
  seen.verified = 0
  for (const refused of [await changePassword(), await changeEmail(), await wrong()])
    isRefusedFor15Minutes(t, refused, '429 10 0', time.seconds())
  t.equal(seen.verified, 0)
  t.equal((await ada.patch('/users/me', { name: 'Countess' })).status, 200, 'a change without password')
  t.equal((await app.admin.patch(`/users/${id}`, { password: RIGHT })).status, 200, 'a reset by an admin')
  const change = { password: 'quite another password', current_password: RIGHT }
  t.equal(
    (await (await createSignedIn(app, bob.email)).patch('/users/me', change)).status,
    200,
    'another user',
  )

  time.pass(900_000)
  const back = await createSignedIn(app, (await app.admin.get(`/users/${id}`)).body.data.email)
  t.equal((await back.patch('/users/me', change)).status, 200)
})

t.test("a refresh counts for the session's user, whatever the window of the IP address", async (t) => {
  const { app } = await counting({ RATE_LIMIT: '3', RATE_LIMIT_ANONYMOUS: '2' })
  const { email } = await account(app)
  const first = (await signIn(app, email)).body.data
  const send = () => createClientFrom(app.base, '203.0.113.1').post('/tokens', {})
  t.same((await sendInSequence(3, send)).map(formatWindow), ['422 2 1', '422 2 0', '429 2 0'])
  const second = await refresh(app, first.refresh_token)
  t.equal(formatWindow(second), '201 3 2')
  const ada = createClient(app.base, { authorization: `Bearer ${second.body.data.access_token}` })
  t.equal(formatWindow(await ada.get('/products')), '200 3 1')
  const third = await refresh(app, second.body.data.refresh_token)
  t.equal(formatWindow(third), '201 3 0')
  t.equal(formatWindow(await refresh(app, third.body.data.refresh_token)), '429 3 0')
  t.equal(formatWindow(await ada.get('/products')), '429 3 0')
})

t.test('an unknown refresh token is a failed authentication', async (t) => {
  const { app } = await counting({ RATE_LIMIT_AUTH_FAILURES: '2', RATE_LIMIT_ANONYMOUS: '9' })
  const { refresh_token } = (await signIn(app, (await account(app)).email)).body.data
  const replies = await sendInSequence(3, () => refresh(app, 'rrt_bad'))
  t.same(replies.map(formatWindow), ['401 9 9', '401 9 9', '429 2 0'])
  t.equal((await refresh(app, refresh_token)).status, 201, 'a valid one passes all the same')
})

t.test('an invalid grant counts as a request without credentials', async (t) => {
  const { app } = await counting({ RATE_LIMIT_ANONYMOUS: '3' })
  const { email } = await account(app)
  const send = async (body: unknown, headers = {}) =>
    formatWindow(await createClientFrom(app.base, '203.0.113.1').post('/tokens', body, headers))
  const text = { 'content-type': 'text/plain' }
  t.same([await send({}), await send('{'), await send('x', text)], ['422 3 2', '400 3 1', '415 3 0'])
  for (const refused of [await send({}), await send('{'), await send('x', text)]) t.equal(refused, '429 3 0')
  t.equal((await signIn(app, email)).status, 429)
  t.equal((await signIn(app, email, RIGHT, '203.0.113.2')).status, 201)
})

t.test('failures elsewhere do not lock an account out at a known IP address', async (t) => {
  const { app, time } = await counting({ LOGIN_FAILURES: '1' })
  const { email } = await account(app)
  t.equal((await signIn(app, email, RIGHT, HOME)).status, 201)
  await attack(app, email)
  t.equal((await signIn(app, email, RIGHT, '198.51.100.99')).status, 429, 'an unknown address is refused')
  const { access_token } = (await signIn(app, email.toUpperCase(), RIGHT, HOME)).body.data
  const headers = { authorization: `Bearer ${access_token}` }
  for (const [address, status] of [
    ['198.51.100.99', 429],
    [HOME, 200],
  ] as const) {
    const change = { password: RIGHT, current_password: RIGHT }
    const reply = await createClientFrom(app.base, address, headers).patch('/users/me', change)
    t.equal(reply.status, status, `a change of the password from ${address}`)
  }
  t.equal((await signIn(app, email, WRONG, HOME)).status, 401)
  t.equal(formatWindow(await signIn(app, email, RIGHT, HOME)), '429 1 0', 'its own failures count')
  time.pass(900_000)
  t.equal((await signIn(app, email, RIGHT, HOME)).status, 201)
})

t.test('failures at a known IP address do not count for the account', async (t) => {
  const { app } = await counting({ LOGIN_FAILURES: '1' })
  const { email } = await account(app)
  t.equal((await signIn(app, email, RIGHT, HOME)).status, 201)
  t.same(statuses(await sendInSequence(2, () => signIn(app, email, WRONG, HOME))), [401, 429])
  await attack(app, email)
  t.equal((await signIn(app, email, WRONG, '198.51.100.99')).status, 429)
})

t.test('an IP address is known for 30 days after the last sign-in, for its account only', async (t) => {
  const { app } = await counting({ LOGIN_FAILURES: '1' })
  const [{ id, email }, other] = [await account(app), await account(app)]
  t.equal((await signIn(app, email, RIGHT, HOME)).status, 201)
  await attack(app, email)
  await attack(app, other.email)
  t.equal((await signIn(app, other.email, RIGHT, HOME)).status, 429, 'the address of another account')
  const setAge = (interval: string) =>
    database.run(
      'update sign_in_addresses set signed_in_at = now() - $2::text::interval where user_id = $1',
      [id, interval],
    )
  for (const [age, status] of [
    ['30 days', 429],
    ['29 days', 201],
    ['1 day', 201],
  ] as const) {
    await setAge(age)
    t.equal((await signIn(app, email, RIGHT, HOME)).status, status, age)
  }
  const young = `signed_in_at > now() - interval '1 hour' as renewed from sign_in_addresses where user_id = $1`
  t.same(await database.run(`select ${young}`, [id]), [{ renewed: true }])
  await setAge('30 days')
  await pruneSignIns(database, () => true)
  t.same(await database.run(`select ${young}`, [id]), [], 'then it is deleted')
})

t.test('a known IP address is stored once a day, hashed', async (t) => {
  const { app } = await counting({})
  const [ada, grace] = [await account(app), await account(app)]
  const readRows = ({ id }: { id: string }) =>
    database.run('select address_hash, xmin::text from sign_in_addresses where user_id = $1', [id])
  await signIn(app, ada.email, RIGHT, HOME)
  const first = await readRows(ada)
  t.equal(first.length, 1)
  await signIn(app, ada.email, RIGHT, HOME)
  await signIn(app, ada.email, WRONG, '198.51.100.1')
  t.same(await readRows(ada), first, 'neither a second sign-in nor a failure is stored')
  await signIn(app, grace.email, RIGHT, HOME)
  const [hers] = await readRows(grace)
  t.match(hers?.address_hash, /^[\w-]{43}$/)
  t.not(hers?.address_hash, first[0]?.address_hash, 'the same address has another hash for another account')
})

t.test('a user has at most 100 known IP addresses, the latest ones', async (t) => {
  const { app } = await counting({})
  const { id, email } = await account(app)
  await database.run(
    `insert into sign_in_addresses (address_hash, user_id, signed_in_at)
     select $1::text || n, $1::uuid, now() - make_interval(mins => n) from generate_series(1, 150) n`,
    [id],
  )
  await signIn(app, email, RIGHT, HOME)
  const readHashes = () =>
    database.run('select address_hash from sign_in_addresses where user_id = $1 order by signed_in_at desc', [
      id,
    ])
  const left = await readHashes()
  t.equal(left.length, 100)
  t.equal(left.at(-1)?.address_hash, `${id}99`)
  await app.admin.delete(`/users/${id}`)
  t.same(await readHashes(), [], 'they go with the user')
})

t.test('the next owner of an email does not inherit the known IP addresses', async (t) => {
  const { app } = await counting({ LOGIN_FAILURES: '1' })
  const { id, email } = await account(app)
  t.equal((await signIn(app, email, RIGHT, HOME)).status, 201)
  t.equal((await app.admin.patch(`/users/${id}`, { email: `moved-${email}` })).status, 200)
  await app.admin.post('/users', { name: 'Grace', email, password: RIGHT })
  await attack(app, email)
  t.equal((await signIn(app, email, RIGHT, HOME)).status, 429)
})

t.test('a wrong password runs the same statements for an unknown account', async (t) => {
  const texts: string[] = []
  const spied: typeof database = createDatabase({
    ...database.$client,
    run: (text, ...rest) => {
      texts.push(text)
      return database.$client.run(text, ...rest)
    },
  })
  const app = await testApp(t, { TRUST_PROXY: '127.0.0.1' }, { database: spied })
  await stopEventWork(app.app)
  const { email } = await account(app)
  const asked = async (of: string) => {
    texts.length = 0
    t.equal((await signIn(app, of, WRONG)).status, 401)
    return [...texts]
  }
  const known = await asked(email)
  t.ok(known.length > 0)
  t.same(await asked('unknown.too@example.com'), known)
})
