/** Rate limits of signing in: how many passwords may be tried, by whom, and what a refresh counts as. */
import t, { type Test } from 'tap'
import type { PasswordHasher } from '../../../accounts/src/auth/passwords.ts'
import { pruneSignIns } from '../../../accounts/src/auth/sign-in-addresses.ts'
import { createDatabase } from '../../../database/src/client/database.ts'
import { createAccounts, newAddress, PASSWORD } from '../../../testing/helpers/accounts.ts'
import { createClient, quickHasher, type Reply, testApp } from '../../../testing/helpers/app.ts'
import { createSharedDatabase } from '../../../testing/helpers/database.ts'
import { stopEventWork } from '../../../testing/helpers/events.ts'
import {
  createClientFrom,
  formatWindow,
  readWindow,
  sendInSequence,
} from '../../../testing/helpers/replies.ts'
import { createClock } from '../../../testing/helpers/time.ts'

const database = await createSharedDatabase(t)
const WRONG = 'wrong horse battery!'
const HOME = '192.0.2.1'
let addresses = 0
const newIp = () => `203.0.113.${++addresses}`

/** Starts an app whose verifications are counted, on a clock that stands; proxies on this machine are believed. */
async function start(settings: Record<string, string>) {
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
  const send = (address: string, body: unknown, headers = {}) =>
    createClientFrom(app.base, address).post('/tokens', body, headers)
  const signIn = (email: string, address: string, password = PASSWORD) =>
    send(address, { grant_type: 'password', email, password })
  return {
    ...app,
    ...createAccounts(app),
    time,
    seen,
    send,
    signIn,
    fail: (email: string, address: string) => signIn(email, address, WRONG),
    refresh: (address: string, refresh_token: string) =>
      send(address, { grant_type: 'refresh_token', refresh_token }),
    /** Signs in and returns a client with the session, at an address. */
    async createSignedIn(email: string, address: string) {
      const { access_token } = (await signIn(email, address)).body.data
      return createClientFrom(app.base, address, { authorization: `Bearer ${access_token}` })
    },
  }
}

/** Forgives one wrong password of an account at an address. */
const one = await start({ LOGIN_FAILURES: '1' })
/** Forgives more of them. */
const five = await start({ LOGIN_FAILURES: '5', RATE_LIMIT: '100' })
const few = await start({
  ...{ RATE_LIMIT: '3', RATE_LIMIT_ANONYMOUS: '3' },
  ...{ RATE_LIMIT_TOKENS: '3', RATE_LIMIT_AUTH_FAILURES: '2' },
})

const statuses = (replies: { status: number }[]) => replies.map(({ status }) => status)

/** Fills the account-wide window from ten addresses. */
async function attack(t: Test, email: string) {
  const replies = await sendInSequence(10, (i) => one.fail(email, `198.51.100.${i}`))
  t.same(statuses(replies), Array(10).fill(401))
}

const isRefusedFor15Minutes = (t: Test, reply: Reply, window: string, seconds: number) => {
  t.equal(formatWindow(reply), window)
  t.match(readWindow(reply), { retryAfter: 900, reset: seconds + 900 })
}

t.test('a port in X-Forwarded-For does not make another address', async (t) => {
  const { email } = await five.create()
  for (const write of [
    (port: number) => `203.0.113.20:${port}`,
    (port: number) => `[2001:db8::20]:${port}`,
    (port: number) => `"[2001:db8:0:1::20]:${port}"`,
    // What is no address counts as that of the proxy.
    (port: number) => `unknown${port}`,
  ]) {
    const replies = await sendInSequence(6, (i) => five.fail(email, write(1024 + i)))
    t.same(statuses(replies), [401, 401, 401, 401, 401, 429], write(0))
  }
})

t.test('password grants of an address are limited per minute, and further ones not verified', async (t) => {
  const { seen, signIn, time } = few
  const { email } = await few.create()
  const address = newIp()
  seen.verified = 0
  t.equal(formatWindow(await signIn(email, address)), '201 3 2')
  // The 401 has the headers of every other.
  for (const who of [email, 'unknown@example.com'])
    t.equal(formatWindow(await few.fail(who, address)), '401 3 3')
  const refused = await signIn(email, address)
  t.equal(formatWindow(refused), '429 3 0')
  t.match(readWindow(refused), { retryAfter: 60, reset: time.seconds() + 60 })
  t.match(refused.body.error, { code: 'RATE_LIMIT_EXCEEDED' })
  t.equal(seen.verified, 3)
  t.equal((await signIn(email, newIp())).status, 201, 'another address has its own')
  time.pass(60_000)
  t.equal(formatWindow(await signIn(email, address)), '201 3 2')
})

t.test('of 100 concurrent wrong passwords only as many are verified as may fail', async (t) => {
  const { seen, signIn, time } = five
  const { email } = await five.create()
  seen.verified = 0
  const address = newIp()
  const replies = await Promise.all(Array.from({ length: 100 }, () => five.fail(email, address)))
  t.same(statuses(replies).sort(), [...Array(5).fill(401), ...Array(95).fill(429)])
  isRefusedFor15Minutes(t, await signIn(email, address), '429 5 0', time.seconds())
  t.equal((await signIn(email.toUpperCase(), address)).status, 429, 'in any letter case')
  t.equal(seen.verified, 5, 'further ones, right or wrong, are not verified')
  t.equal((await signIn(email, newIp())).status, 201, 'another address')
  t.equal((await signIn((await five.create()).email, address)).status, 201, 'another account')
  time.pass(900_000)
  t.equal((await signIn(email, address)).status, 201)
})

t.test('an unknown account is refused like an existing one', async (t) => {
  const describeRefusals = async (email: string) =>
    (await sendInSequence(3, () => one.fail(email, HOME))).map((reply) => [
      formatWindow(reply),
      reply.body.error.message,
      readWindow(reply).retryAfter,
    ])
  const known = await describeRefusals((await one.create()).email)
  t.same(known, await describeRefusals('unknown.too@example.com'))
})

t.test('only wrong passwords are failures', async (t) => {
  const { seen } = one
  const { email } = await one.create()
  const address = newIp()
  const all = await Promise.all(Array.from({ length: 12 }, () => one.signIn(email, address)))
  t.same(statuses(all), Array(12).fill(201), 'concurrent right ones')
  seen.fails = true
  t.same(statuses(await sendInSequence(3, () => one.fail(email, address))), [500, 500, 500])
  seen.fails = false
  t.equal((await one.fail(email, address)).status, 401)
  t.equal((await one.signIn(email, address)).status, 429)
})

t.test('a wrong current_password is a failed sign-in', async (t) => {
  const { email } = await five.create()
  const address = newIp()
  const ada = await five.createSignedIn(email, address)
  const change = (current_password: string) =>
    ada.patch('/users/me', { password: 'quite another password', current_password })
  five.seen.verified = 0
  for (let i = 0; i < 3; i++) t.equal((await five.fail(email, address)).status, 401)
  t.same((await sendInSequence(2, () => change(WRONG))).map(formatWindow), ['403 100 99', '403 100 98'])
  t.equal(formatWindow(await change(PASSWORD)), '429 5 0')
  const changed = { name: 'Ada', email: 'b@example.com', current_password: PASSWORD }
  t.equal((await ada.put('/users/me', changed)).status, 429)
  t.equal((await five.signIn(email, address)).status, 429)
  t.equal(five.seen.verified, 5)
  t.equal((await ada.patch('/users/me', { name: 'Countess' })).status, 200, 'a change without password')
})

t.test('a user changes the own password or email at most 10 times in 15 minutes', async (t) => {
  const { admin, seen, time } = five
  const [{ id, email }, bob] = [await five.create(), await five.create()]
  const ada = await five.createSignedIn(email, HOME)
  let current = PASSWORD
  let made = 0
  const changePassword = async () => {
    const password = `password number ${++made}`
    const reply = await ada.patch('/users/me', { password, current_password: current })
    if (reply.status === 200) current = password
    return reply
  }
  const changeEmail = () => ada.patch('/users/me', { email: newAddress(), current_password: current })
  const wrong = () => ada.patch('/users/me', { password: 'never set at all', current_password: WRONG })

  t.same(statuses(await sendInSequence(3, wrong)), [403, 403, 403], 'wrong ones do not count here')
  t.same(statuses(await sendInSequence(5, changePassword)), Array(5).fill(200))
  t.same(statuses(await sendInSequence(5, changeEmail)), Array(5).fill(200))
  seen.verified = 0
  for (const refused of [await changePassword(), await changeEmail(), await wrong()])
    isRefusedFor15Minutes(t, refused, '429 10 0', time.seconds())
  t.equal(seen.verified, 0)
  t.equal((await ada.patch('/users/me', { name: 'Countess' })).status, 200, 'a change without password')
  t.equal((await admin.patch(`/users/${id}`, { password: PASSWORD })).status, 200, 'a reset by an admin')
  const change = { password: 'quite another password', current_password: PASSWORD }
  const other = await five.createSignedIn(bob.email, HOME)
  t.equal((await other.patch('/users/me', change)).status, 200, 'another user')

  time.pass(900_000)
  const back = await five.createSignedIn((await five.read(id)).email, HOME)
  t.equal((await back.patch('/users/me', change)).status, 200)
})

t.test(
  'a refresh counts for its user, a refused one as a failure, an invalid grant as anonymous',
  async (t) => {
    const { base, refresh, send, signIn } = few
    const address = newIp()
    const { email } = await few.create()
    const first = (await signIn(email, address)).body.data
    const text = { 'content-type': 'text/plain' }
    for (const windows of [['422 3 2', '400 3 1', '415 3 0'], Array(3).fill('429 3 0')]) {
      const replies = [await send(address, {}), await send(address, '{'), await send(address, 'x', text)]
      t.same(replies.map(formatWindow), windows)
    }
    t.equal((await signIn(email, address)).status, 429)
    t.equal((await signIn(email, newIp())).status, 201)

    const second = await refresh(address, first.refresh_token)
    t.equal(formatWindow(second), '201 3 2', 'whatever the window of the IP address')
    const ada = createClient(base, { authorization: `Bearer ${second.body.data.access_token}` })
    t.equal(formatWindow(await ada.get('/products')), '200 3 1')
    const other = newIp()
    const refused = await sendInSequence(3, () => refresh(other, 'rrt_bad'))
    t.same(refused.map(formatWindow), ['401 3 3', '401 3 3', '429 2 0'])
    const third = await refresh(other, second.body.data.refresh_token)
    t.equal(formatWindow(third), '201 3 0', 'a valid one passes all the same')
    t.equal(formatWindow(await refresh(address, third.body.data.refresh_token)), '429 3 0')
    t.equal(formatWindow(await ada.get('/products')), '429 3 0')
  },
)

t.test('ten times as many may fail elsewhere, but lock no account out at a known IP address', async (t) => {
  const { seen, signIn, time } = one
  const { id, email } = await one.create()
  const other = await one.create()
  t.equal((await signIn(email, HOME)).status, 201)
  t.same(statuses(await sendInSequence(2, () => one.fail(email, HOME))), [401, 429], 'do not count elsewhere')
  time.pass(900_000)
  seen.verified = 0
  await attack(t, email)
  isRefusedFor15Minutes(t, await signIn(email, '198.51.100.99'), '429 10 0', time.seconds())
  t.equal(seen.verified, 10)
  const { access_token } = (await signIn(email.toUpperCase(), HOME)).body.data
  const headers = { authorization: `Bearer ${access_token}` }
  for (const [address, status] of [
    ['198.51.100.99', 429],
    [HOME, 200],
  ] as const) {
    const change = { password: PASSWORD, current_password: PASSWORD }
    const reply = await createClientFrom(one.base, address, headers).patch('/users/me', change)
    t.equal(reply.status, status, `a change of the password from ${address}`)
  }
  await attack(t, other.email)
  t.equal((await signIn(other.email, HOME)).status, 429, 'the address of another account')

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
    t.equal((await signIn(email, HOME)).status, status, age)
  }
  const young = `signed_in_at > now() - interval '1 hour' as renewed from sign_in_addresses where user_id = $1`
  t.same(await database.run(`select ${young}`, [id]), [{ renewed: true }])
  t.equal((await one.fail(email, HOME)).status, 401)
  t.equal(formatWindow(await signIn(email, HOME)), '429 1 0', 'its own failures count')
  await setAge('30 days')
  await pruneSignIns(database, () => true)
  t.same(await database.run(`select ${young}`, [id]), [], 'then it is deleted')
  time.pass(900_000)
  t.equal((await signIn(email, HOME)).status, 201)

  t.equal((await one.admin.patch(`/users/${id}`, { email: `moved-${email}` })).status, 200)
  await one.create({ email })
  await attack(t, email)
  t.equal((await signIn(email, HOME)).status, 429, 'the next owner of the email address does not know it')
})

t.test('known IP addresses are stored once a day, hashed, the latest 100 of each user', async (t) => {
  const { admin, signIn } = five
  const [ada, grace] = [await five.create(), await five.create()]
  const readRows = ({ id }: { id: string }) =>
    database.run(
      `select address_hash, xmin::text from sign_in_addresses where user_id = $1 order by signed_in_at desc`,
      [id],
    )
  await signIn(ada.email, HOME)
  const first = await readRows(ada)
  t.equal(first.length, 1)
  await signIn(ada.email, HOME)
  await five.fail(ada.email, '198.51.100.1')
  t.same(await readRows(ada), first, 'neither a second sign-in nor a failure is stored')
  await signIn(grace.email, HOME)
  const [hers] = await readRows(grace)
  t.match(hers?.address_hash, /^[\w-]{43}$/)
  t.not(hers?.address_hash, first[0]?.address_hash, 'another hash for another account')

  await database.run(
    `insert into sign_in_addresses (address_hash, user_id, signed_in_at)
     select $1::text || n, $1::uuid, now() - make_interval(mins => n) from generate_series(1, 150) n`,
    [ada.id],
  )
  await signIn(ada.email, '198.51.100.2')
  const left = await readRows(ada)
  t.equal(left.length, 100)
  t.equal(left.at(-1)?.address_hash, `${ada.id}98`)
  await admin.delete(`/users/${ada.id}`)
  t.same(await readRows(ada), [], 'they go with the user')
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
  const app = await testApp(t, {}, { database: spied })
  await stopEventWork(app.app)
  const { create, signIn } = createAccounts(app)
  const { email } = await create()
  const listStatements = async (address: string) => {
    texts.length = 0
    t.equal((await signIn(address, WRONG)).status, 401)
    return [...texts]
  }
  const known = await listStatements(email)
  t.ok(known.length > 0)
  t.same(await listStatements('unknown.too@example.com'), known)
})
