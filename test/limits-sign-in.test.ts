/** Rate limits of signing in: how many passwords may be tried, by whom, and what refreshing counts as. */
import t from 'tap'
import { argon2, type Work } from '../plugins/passwords.ts'
import { createClient, type TestApp, testApp } from './helpers/app.ts'
import type { Owner } from './helpers/database.ts'
import { briefly, clock, from, times, toldBy } from './helpers/limits.ts'
import { sharedDatabase } from './helpers/shared.ts'

const database = await sharedDatabase(t)
const RIGHT = 'correct horse battery'
const WRONG = 'wrong horse battery!'
let count = 0

/** An app whose verifications are counted, on a clock that stands; proxies on this machine are believed. */
async function counting(t: Owner, settings: Record<string, string>) {
  const time = clock()
  const seen = { verified: 0, fails: false }
  const passwordWork: Work = {
    ...argon2,
    async verify(hashed, password) {
      seen.verified++
      if (seen.fails) throw new Error('out of memory')
      return argon2.verify(hashed, password)
    },
  }
  const all = { TRUST_PROXY: '127.0.0.1', ...settings }
  const app = await testApp(t, all, { database, passwordWork, now: time.now })
  return { app, time, seen }
}

async function account({ admin }: TestApp) {
  const email = `ada${count++}@example.com`
  const { body } = await admin.post('/users', { name: 'Ada', email, password: RIGHT })
  return { id: String(body.data.id), email }
}

const signIn = ({ base }: TestApp, email: string, password = RIGHT, address = '203.0.113.1') =>
  from(base, address).post('/tokens', { grant_type: 'password', email, password })

const statuses = (replies: { status: number }[]) => replies.map(({ status }) => status)

t.test('so many password grants a minute from an address, and no more are looked at', async (t) => {
  const { app, time, seen } = await counting(t, { RATE_LIMIT_TOKENS: '3' })
  const { email } = await account(app)
  t.equal(briefly(await signIn(app, email)), '201 3 2')
  t.equal(briefly(await signIn(app, email, WRONG)), '401 1000000000 1000000000', 'as any 401')
  t.equal(briefly(await signIn(app, 'nobody@example.com')), '401 1000000000 1000000000')
  const refused = await signIn(app, email)
  t.equal(briefly(refused), '429 3 0')
  t.same([toldBy(refused).retryAfter, toldBy(refused).reset], [60, time.seconds() + 60])
  t.match(refused.body.error, { code: 'RATE_LIMIT_EXCEEDED' })
  t.equal(seen.verified, 3)
  t.equal((await signIn(app, email, RIGHT, '203.0.113.2')).status, 201, 'another address has its own')
  time.pass(60_000)
  t.equal(briefly(await signIn(app, email)), '201 3 2')
})

t.test('100 wrong passwords at once: as many are verified as may fail', async (t) => {
  const { app, time, seen } = await counting(t, { LOGIN_FAILURES: '5' })
  const { email } = await account(app)
  const replies = await Promise.all(Array.from({ length: 100 }, () => signIn(app, email, WRONG)))
  t.equal(seen.verified, 5)
  t.equal(statuses(replies).filter((status) => status === 401).length, 5)
  t.equal(statuses(replies).filter((status) => status === 429).length, 95)

  const right = await signIn(app, email)
  t.equal(briefly(right), '429 5 0', 'then the right one is refused as well')
  t.same([toldBy(right).retryAfter, toldBy(right).reset], [900, time.seconds() + 900])
  t.equal((await signIn(app, email.toUpperCase())).status, 429, 'in whatever letter case')
  t.equal(seen.verified, 5, 'and is not looked at')
  t.equal((await signIn(app, email, RIGHT, '203.0.113.2')).status, 201, 'from elsewhere it is')
  t.equal((await signIn(app, (await account(app)).email)).status, 201, 'and so is that of another account')
  time.pass(900_000)
  t.equal((await signIn(app, email)).status, 201)
})

t.test('an account that does not exist is refused like one that does', async (t) => {
  const { app } = await counting(t, { LOGIN_FAILURES: '2' })
  const { email } = await account(app)
  const told = async (email: string) =>
    (await times(4, () => signIn(app, email, WRONG))).map((reply) => [
      briefly(reply),
      reply.body.error.message,
      toldBy(reply).retryAfter,
    ])
  t.same(await told(email), await told('nobody.at.all@example.com'))
})

t.test('from all addresses together, ten times as many may fail', async (t) => {
  const { app, time, seen } = await counting(t, { LOGIN_FAILURES: '1' })
  const { email } = await account(app)
  const replies = await times(10, (i) => signIn(app, email, WRONG, `198.51.100.${i}`))
  t.same(statuses(replies), Array(10).fill(401))
  const refused = await signIn(app, email, RIGHT, '198.51.100.99')
  t.equal(briefly(refused), '429 10 0')
  t.equal(toldBy(refused).reset, time.seconds() + 900)
  t.equal(seen.verified, 10)
})

t.test('right passwords take no places: neither one by one, nor all at once', async (t) => {
  const { app } = await counting(t, { LOGIN_FAILURES: '1' })
  const { email } = await account(app)
  t.same(statuses(await times(3, () => signIn(app, email))), [201, 201, 201])
  const all = await Promise.all(Array.from({ length: 12 }, () => signIn(app, email)))
  t.same(statuses(all), Array(12).fill(201))
  t.equal((await signIn(app, email, WRONG)).status, 401)
  t.equal((await signIn(app, email)).status, 429)
})

t.test('what could not be verified is no failure', async (t) => {
  const { app, seen } = await counting(t, { LOGIN_FAILURES: '1' })
  const { email } = await account(app)
  seen.fails = true
  t.same(statuses(await times(3, () => signIn(app, email, WRONG))), [500, 500, 500])
  seen.fails = false
  t.equal((await signIn(app, email)).status, 201)
})

t.test('a wrong current_password is a failed sign-in', async (t) => {
  const { app, seen } = await counting(t, { LOGIN_FAILURES: '3', RATE_LIMIT: '100' })
  const { email } = await account(app)
  const { access_token } = (await signIn(app, email)).body.data
  const ada = from(app.base, '203.0.113.1', { authorization: `Bearer ${access_token}` })
  const change = (current_password: string) =>
    ada.patch('/users/me', { password: 'quite another password', current_password })
  seen.verified = 0
  t.equal((await signIn(app, email, WRONG)).status, 401)
  t.same((await times(2, () => change(WRONG))).map(briefly), ['403 100 99', '403 100 98'])
  const refused = await change(RIGHT)
  t.equal(briefly(refused), '429 3 0')
  t.equal(toldBy(refused).retryAfter, 900)
  t.equal(
    (await ada.put('/users/me', { name: 'Ada', email: 'b@example.com', current_password: RIGHT })).status,
    429,
  )
  t.equal((await signIn(app, email)).status, 429)
  t.equal(seen.verified, 3)
  t.equal((await ada.patch('/users/me', { name: 'Countess' })).status, 200, 'what needs no password goes on')
})

t.test("refreshing counts as the session's user", async (t) => {
  const { app } = await counting(t, { RATE_LIMIT: '3', RATE_LIMIT_TOKENS: '5', RATE_LIMIT_ANONYMOUS: '9' })
  const { email } = await account(app)
  const first = (await signIn(app, email)).body.data
  const refresh = (refresh_token: string) =>
    from(app.base, '203.0.113.1').post('/tokens', { grant_type: 'refresh_token', refresh_token })
  const second = await refresh(first.refresh_token)
  t.equal(briefly(second), '201 3 2')
  const ada = createClient(app.base, { authorization: `Bearer ${second.body.data.access_token}` })
  t.equal(briefly(await ada.get('/products')), '200 3 1')
  const third = await refresh(second.body.data.refresh_token)
  t.equal(briefly(third), '201 3 0')
  t.equal(briefly(await refresh(third.body.data.refresh_token)), '429 3 0')
  t.equal(briefly(await ada.get('/products')), '429 3 0')
})

t.test(
  'strangers who have used up the window of an address keep nobody there from staying signed in',
  async (t) => {
    const { app } = await counting(t, { RATE_LIMIT_ANONYMOUS: '2' })
    const { email } = await account(app)
    const { refresh_token } = (await signIn(app, email)).body.data
    const send = (body: unknown) => from(app.base, '203.0.113.1').post('/tokens', body)
    t.same((await times(3, () => send({}))).map(briefly), ['422 2 1', '422 2 0', '429 2 0'])
    t.equal((await send({ grant_type: 'refresh_token', refresh_token })).status, 201)
  },
)

t.test('a refresh token that nobody has is a failed authentication', async (t) => {
  const { app, time } = await counting(t, { RATE_LIMIT_AUTH_FAILURES: '2', RATE_LIMIT_ANONYMOUS: '9' })
  const { email } = await account(app)
  const { refresh_token } = (await signIn(app, email)).body.data
  const refresh = (refresh_token: string) =>
    from(app.base, '203.0.113.1').post('/tokens', { grant_type: 'refresh_token', refresh_token })
  t.same((await times(3, () => refresh('rrt_bad'))).map(briefly), ['401 9 9', '401 9 9', '429 2 0'])
  t.equal((await refresh(refresh_token)).status, 201, 'one that holds passes all the same')
  time.pass(60_000)
  t.equal((await refresh('rrt_bad')).status, 401)
})

t.test('a grant that cannot be read counts as a request without credentials', async (t) => {
  const { app } = await counting(t, { RATE_LIMIT_ANONYMOUS: '3' })
  const { email } = await account(app)
  const send = (body: unknown, headers = {}) => from(app.base, '203.0.113.1').post('/tokens', body, headers)
  t.equal(briefly(await send({})), '422 3 2')
  t.equal(briefly(await send('{')), '400 3 1')
  t.equal((await signIn(app, email)).status, 201, 'one that can counts elsewhere')
  t.equal(briefly(await send('x', { 'content-type': 'text/plain' })), '415 3 0')
  const refused = await send({})
  t.equal(briefly(refused), '429 3 0')
  t.equal(briefly(await send('{')), '429 3 0')
  t.equal(briefly(await send('x', { 'content-type': 'text/plain' })), '429 3 0')
  t.equal((await signIn(app, email)).status, 429)
  t.equal((await signIn(app, email, RIGHT, '203.0.113.2')).status, 201)
})
