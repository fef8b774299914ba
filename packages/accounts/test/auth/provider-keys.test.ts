/**
 * The key set of an identity provider is fetched on demand, and not once per request when the provider
 * fails; what is no key, no answer or no signature of one of its keys is rejected.
 */
import { createHmac, createPublicKey, generateKeyPairSync } from 'node:crypto'
import { exportJWK } from 'jose'
import t, { type Test } from 'tap'
import { createClient, type Reply, testApp } from '../../../testing/helpers/app.ts'
import { createSharedDatabase } from '../../../testing/helpers/database.ts'
import { formatWindow, readWindow } from '../../../testing/helpers/replies.ts'
import { createClock } from '../../../testing/helpers/time.ts'
import { signToken, signUserToken, startProvider } from './identity-provider.ts'

const database = await createSharedDatabase(t)
const EMAIL = 'admin@example.com'
const COUNT = 20
const REFUSED = '429 5 0'

/** Starts a provider and an app with a clock that stands. */
async function start(test: Test, settings: Record<string, string> = {}) {
  const provider = await startProvider(test)
  const time = createClock()
  const app = await testApp(test, { ...provider.settings, ...settings }, { database, now: time.now })
  const send = (token: string): Promise<Reply> =>
    createClient(app.base, { authorization: `Bearer ${token}` }).get('/users/me')
  return { ...app, provider, time, send }
}

const signMany = (kid: string) =>
  Promise.all(Array.from({ length: COUNT }, (_, i) => signToken({ sub: `s${i}` }, kid)))

const statuses = (replies: Reply[]) => [...new Set(replies.map(({ status }) => status))]

t.test('a failed fetch is shared, and answered from memory for a few seconds', async (t) => {
  const { provider, time, send } = await start(t)
  const sendAll = async (kid: string) => Promise.all((await signMany(kid)).map(send))
  provider.answer = (response) => void setImmediate(() => provider.fail(response))
  t.same(statuses(await sendAll('current')), [502])
  for (const token of await signMany('current')) t.equal((await send(token)).status, 502)
  t.same(statuses(await sendAll('other')), [502])
  t.equal(provider.requests, 1)
  provider.answer = (response) => void response.destroy()
  time.pass(5_000)
  for (const token of await signMany('current')) {
    const { status, headers } = await send(token)
    t.same([status, headers.get('retry-after')], [503, '5'])
  }
  t.equal(provider.requests, 2)
  provider.answer = provider.publish
  time.pass(5_000)
  t.equal((await send(await signUserToken('first', EMAIL))).status, 200, 'over as soon as it answers')
  t.equal(provider.requests, 3)
})

t.test('an unknown kid fetches at most once a minute, also when the fetch fails', async (t) => {
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
})

t.test('forged kids delay the keys of a rotation by 5 s at most', async (t) => {
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
  t.equal((await send(await signUserToken('first', EMAIL, 'third'))).status, 200)
})

t.test('each kind of key verifies its algorithm, and times have 30 s of leeway', async (t) => {
  const { admin, app, person, provider, send } = await start(t)
  const { id } = await person('member')
  const email = (await admin.get(`/users/${id}`)).body.data.email
  await admin.patch(`/users/${id}`, { email: `new.${email}` })
  const them = { sub: 'them', email: `new.${email}`, email_verified: true }
  const ed = generateKeyPairSync('ed25519')
  const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 })
  const ec = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const secret = Buffer.alloc(32, 1)
  provider.answer = provider.publishKeys([
    { ...(await exportJWK(ed.publicKey)), kid: 'ed' },
    { ...(await exportJWK(rsa.publicKey)), kid: 'rsa' },
    { ...(await exportJWK(ec.publicKey)), kid: 'ec' },
    { kty: 'oct', k: secret.toString('base64url'), kid: 'oct' },
  ])
  t.equal((await send(await signToken(them, 'ed', 'EdDSA', ed.privateKey))).status, 200)
  t.equal((await send(await signToken(them, 'rsa', 'RS256', rsa.privateKey))).status, 200)
  const theirs = await send(await signToken(them, 'ec', 'ES256', ec.privateKey))
  t.equal(theirs.body.data?.id, id)
  const grant = await app.sessions.create({ id, role: 'member' }, { ip: '127.0.0.1', userAgent: 'test' })
  const ours = await send(app.accessTokens.issue(grant).text)
  t.equal(readWindow(ours).remaining, (readWindow(theirs).remaining ?? 0) - 1, 'one window of the user')

  for (const [name, seconds, status] of [
    ['exp', -2, 200],
    ['exp', -31, 401],
    ['nbf', 2, 200],
    ['nbf', 20, 200],
    ['nbf', 60, 401],
    ['iat', 20, 200],
  ] as const) {
    const time = { [name]: Math.floor(Date.now() / 1000) + seconds }
    const token = await signToken({ ...them, ...time }, 'rsa', 'RS256', rsa.privateKey)
    t.equal((await send(token)).status, status, `${name} ${seconds}`)
    if (status === 200) t.equal((await send(token)).status, 200, 'and from the cache')
  }

  const [head, body] = (await signToken(them, 'rsa', 'RS256', rsa.privateKey)).split('.')
  const hs = (secret: string | Buffer, kid: string) => {
    const header = Buffer.from(JSON.stringify({ alg: 'HS256', kid })).toString('base64url')
    const mac = createHmac('sha256', secret).update(`${header}.${body}`).digest('base64url')
    return `${header}.${body}.${mac}`
  }
  const pem = createPublicKey(rsa.privateKey).export({ format: 'pem', type: 'spki' }).toString()
  for (const [name, token] of Object.entries({
    'HS256 with the public key as its secret': hs(pem, 'rsa'),
    'HS256 with a secret that the provider published': hs(secret, 'oct'),
    'another algorithm of the same key': await signToken(them, 'rsa', 'PS256', rsa.privateKey),
    RS512: await signToken(them, 'rsa', 'RS512', rsa.privateKey),
    'a kid of another kind of key': await signToken(them, 'ed', 'RS256', rsa.privateKey),
    'no signature': `${head}.${body}.`,
    none: `${Buffer.from('{"alg":"none"}').toString('base64url')}.${body}.`,
  })) {
    const reply = await send(token)
    t.same([reply.status, reply.body.error?.message], [401, 'Invalid or expired token'], name)
  }
})

t.test('a bad answer of the provider is a 502, no answer a 503, and own credentials work', async (t) => {
  const { admin, provider, time, send } = await start(t)
  const invalid = async (name: string, reply: Reply) => {
    t.equal(reply.status, 502, `${name}: ${reply.text}`)
    t.match(reply.body.error.message, 'The identity provider returned an invalid response')
    t.equal((await admin.get('/users/me')).status, 200, 'own credentials are not affected')
  }
  const token = await signUserToken('first', EMAIL)
  for (const [i, [name, status, answer]] of (
    [
      ['keys that are no list', 502, provider.publishKeys('none')],
      ['a redirection', 502, (response) => void response.writeHead(302, { location: '/x' }).end()],
      ['half an answer', 502, (response) => void response.writeHead(200).end('{"keys": [')],
      ['a line that is cut', 503, (response) => void response.socket?.destroy()],
      ['silence', 503, () => {}],
    ] as [string, number, typeof provider.answer][]
  ).entries()) {
    provider.answer = answer
    const reply = await send(token)
    if (status === 502) await invalid(name, reply)
    t.equal(reply.status, status, name)
    if (status === 503) t.match(reply.headers.get('retry-after'), /^\d+$/)
    t.equal(provider.requests, i + 1)
    time.pass(5_000)
  }
  const small = await exportJWK(generateKeyPairSync('rsa', { modulusLength: 1024 }).publicKey)
  provider.answer = provider.publishKeys([
    { kty: 'RSA', kid: 'not a number', n: '!!', e: 'AQAB' },
    { kty: 'RSA', kid: 'without its parts' },
    { ...small, kid: 'too short' },
  ])
  for (const kid of ['not a number', 'without its parts', 'too short'])
    await invalid(kid, await send(await signUserToken('first', EMAIL, kid)))
})

t.test('what the provider did not sign is a failed authentication, also while it fails', async (t) => {
  const { provider, send, time } = await start(t, { RATE_LIMIT_AUTH_FAILURES: '5' })
  provider.answer = provider.fail
  const bad = [
    await signToken({ sub: 's', exp: 1 }),
    await signToken({ sub: 's', exp: undefined }),
    await signToken({ sub: 's', aud: 'another' }),
    await signToken({ aud: 'shop' }),
    `${Buffer.from('{"alg":"none"}').toString('base64url')}.${(await signToken({ sub: 's' })).split('.')[1]}.`,
  ]
  for (const token of bad) t.equal((await send(token)).status, 401)
  t.equal(formatWindow(await send(bad[0] ?? '')), REFUSED)
  t.equal(provider.requests, 0, 'none of them is worth a fetch')

  provider.answer = provider.publish
  time.pass(60_000)
  const good = await signUserToken('first', EMAIL)
  const [head, body] = good.split('.')
  t.equal((await send(`${head}.${body}.${'A'.repeat(342)}`)).status, 401, 'a wrong signature')
  for (const token of (await signMany('unknown')).slice(0, 4)) t.equal((await send(token)).status, 401)
  t.equal(formatWindow(await send(await signToken({ sub: 's' }, 'unknown'))), REFUSED)
  t.equal((await send(good)).status, 200, 'one that holds passes all the same')
})
