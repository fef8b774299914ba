/**
 * The key set of an identity provider is fetched on demand, and not once per request when the provider
 * fails.
 */
import t, { type Test } from 'tap'
import { createClient, type Reply, testApp } from '../helpers/app.ts'
import { createSharedDatabase } from '../helpers/database.ts'
import { formatWindow } from '../helpers/replies.ts'
import { createClock } from '../helpers/time.ts'
import { signToken, signUserToken, startProvider } from './identity-provider.ts'

const database = await createSharedDatabase(t)
const EMAIL = 'admin@example.com'
const COUNT = 20

/** Starts a provider and an app with a clock that stands. */
async function start(test: Test, settings: Record<string, string> = {}) {
  const provider = await startProvider(test)
  const time = createClock()
  const { base } = await testApp(test, { ...provider.settings, ...settings }, { database, now: time.now })
  const send = (token: string): Promise<Reply> =>
    createClient(base, { authorization: `Bearer ${token}` }).get('/users/me')
  return { provider, time, send }
}

const signMany = (kid: string) =>
  Promise.all(Array.from({ length: COUNT }, (_, i) => signToken({ sub: `s${i}` }, kid)))

const statuses = (replies: Reply[]) => [...new Set(replies.map(({ status }) => status))]

t.test('a failed fetch is answered from memory for a few seconds', async (t) => {
  const { provider, time, send } = await start(t)
  provider.answer = provider.fail
  for (const token of await signMany('current')) t.equal((await send(token)).status, 502)
  t.same(statuses(await Promise.all((await signMany('other')).map(send))), [502])
  t.equal(provider.requests, 1)
  provider.answer = (response) => void response.destroy()
  time.pass(5_000)
  for (const token of await signMany('current')) {
    const reply = await send(token)
    t.equal(reply.status, 503)
    t.equal(reply.headers.get('retry-after'), '5')
  }
  t.equal(provider.requests, 2)
  provider.answer = provider.publish
  time.pass(5_000)
  t.equal(
    (await send(await signUserToken('first', EMAIL))).status,
    200,
    'and over as soon as the provider answers',
  )
  t.equal(provider.requests, 3)
})

t.test('concurrent requests share one fetch', async (t) => {
  const { provider, send } = await start(t)
  provider.answer = (response) => void setImmediate(() => provider.fail(response))
  t.same(statuses(await Promise.all((await signMany('current')).map(send))), [502])
  t.equal(provider.requests, 1)
})

t.test(
  'tokens with one unknown kid fetch at most once a minute, and also when the fetch fails',
  async (t) => {
    const { provider, time, send } = await start(t)
    t.equal((await send(await signUserToken('first', EMAIL))).status, 200)
    const unknown = await signMany('unknown')
    for (const token of unknown) t.equal((await send(token)).status, 401)
    t.equal(provider.requests, 2)
    provider.answer = provider.fail
    time.pass(60_001)
    for (const token of unknown) t.equal((await send(token)).status, 502, 'the key may be a new one')
    t.equal(provider.requests, 3, 'the failure is remembered')
    t.equal((await send(await signUserToken('first'))).status, 200, 'the keys known before still verify')
    provider.answer = provider.publish
    time.pass(5_000)
    for (const token of unknown) t.equal((await send(token)).status, 401)
    t.equal(provider.requests, 4)
  },
)

t.test('a forged kid does not delay the keys of a rotation', async (t) => {
  const { provider, time, send } = await start(t)
  t.equal((await send(await signUserToken('first', EMAIL))).status, 200)
  t.equal((await send(await signToken({ sub: 's' }, 'forged'))).status, 401)
  provider.kid = 'second'
  t.equal((await send(await signUserToken('first', EMAIL, 'second'))).status, 200)
  const before = provider.requests
  for (let i = 0; i < COUNT; i++) await send(await signToken({ sub: 's' }, `forged ${i}`))
  t.ok(provider.requests - before <= 5, 'many forged kids cause few fetches')
  provider.kid = 'third'
  time.pass(5_000)
  t.equal(
    (await send(await signUserToken('first', EMAIL, 'third'))).status,
    200,
    'and delay it by 5 s at most',
  )
})

t.test('the times in a token of the provider have 30 s of leeway', async (t) => {
  const { send } = await start(t)
  for (const [name, seconds, status] of [
    ['exp', -2, 200],
    ['exp', -31, 401],
    ['nbf', 2, 200],
    ['nbf', 20, 200],
    ['nbf', 60, 401],
    ['iat', 20, 200],
  ] as const) {
    const claims = { sub: 'first', email: EMAIL, email_verified: true }
    const token = await signToken({ ...claims, [name]: Math.floor(Date.now() / 1000) + seconds })
    t.equal((await send(token)).status, status, `${name} ${seconds}`)
    if (status === 200) t.equal((await send(token)).status, 200, 'and from the cache')
  }
})

t.test(
  'an invalid token of the provider is a failed authentication, also while the provider fails',
  async (t) => {
    const { provider, send } = await start(t, { RATE_LIMIT_AUTH_FAILURES: '5' })
    provider.answer = provider.fail
    const bad = [
      await signToken({ sub: 's', exp: 1 }),
      await signToken({ sub: 's', exp: undefined }),
      await signToken({ sub: 's', aud: 'another' }),
      await signToken({ aud: 'shop' }),
      `${Buffer.from('{"alg":"none"}').toString('base64url')}.${(await signToken({ sub: 's' })).split('.')[1]}.`,
    ]
    for (const token of bad) t.equal((await send(token)).status, 401)
    t.equal(formatWindow(await send(bad[0] ?? '')), '429 5 0')
    t.equal(provider.requests, 0, 'none of them is worth a fetch')
  },
)

t.test('tokens with an unknown kid or a wrong signature count as failed authentications', async (t) => {
  const { send } = await start(t, { RATE_LIMIT_AUTH_FAILURES: '5' })
  const good = await signUserToken('first', EMAIL)
  const [head, body] = good.split('.')
  t.equal((await send(`${head}.${body}.${'A'.repeat(342)}`)).status, 401)
  for (const token of (await signMany('unknown')).slice(0, 4)) t.equal((await send(token)).status, 401)
  t.equal(formatWindow(await send(await signToken({ sub: 's' }, 'unknown'))), '429 5 0')
  t.equal((await send(good)).status, 200, 'one that holds passes all the same')
})
