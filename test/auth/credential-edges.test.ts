/** Malformed credentials, expiry times and key sets of identity providers are rejected. */
import { createHmac, generateKeyPairSync, type KeyObject } from 'node:crypto'
import { createServer, type RequestListener } from 'node:http'
import { exportJWK, exportSPKI, SignJWT } from 'jose'
import t, { type Test } from 'tap'
import { createClient, type TestApp, testApp } from '../helpers/app.ts'
import { createSharedDatabase } from '../helpers/database.ts'
import { listen } from '../helpers/network.ts'
import { getViolations, readWindow } from '../helpers/replies.ts'

t.test('expires_at of an API key is an RFC 3339 date-time within a year', async (t) => {
  const { person } = await testApp(t)
  const { bearer } = await person('member')
  const key = { name: 'k', scopes: ['*'] }
  // Within the next 365 days whatever day it is.
  const next = new Date().getUTCFullYear() + 1
  const day = `${next}-01-01`
  for (const expires_at of [
    day,
    `${day}T10:00:00`,
    `${day} 10:00`,
    `${day}T24:00:00Z`,
    `${day}T10:00Z`,
    `${next}-02-30T00:00:00Z`,
    `Fri, 01 Jan ${next} 10:00:00 GMT`,
    `+00${day}T10:00:00Z`,
    `${day}T10:00:00+0200`,
  ])
    t.same(getViolations(await bearer.post('/api-keys', { ...key, expires_at })), [
      'expires_at INVALID_FORMAT',
    ])
  const soon = Date.now() + 3 * 86_400_000
  const text = new Date(soon).toISOString()
  for (const [expires_at, meant] of [
    [text.toLowerCase(), text],
    [text.replace('Z', '123456Z'), text],
    [text.replace('Z', '-02:00'), new Date(soon + 2 * 3_600_000).toISOString()],
  ] as const)
    t.equal((await bearer.post('/api-keys', { ...key, expires_at })).body.data?.expires_at, meant)

  const made = await bearer.post('/api-keys', key)
  const { id, expires_at } = made.body.data
  const left = (Date.parse(expires_at) - Date.now()) / 86_400_000
  t.ok(left > 89 && left <= 90, '90 days by default')
  const path = `/api-keys/${id}`
  t.match([made.body.data.key, (await bearer.get(path)).body.data.key], [/^rak_/, null], 'shown once')
  const same = await bearer.patch(path, { expires_at })
  t.equal(same.headers.get('etag'), made.headers.get('etag'), 'the value that was read changes nothing')
  for (const bad of ['0000-01-01T00:00:00Z', '2020-01-01T00:00:00Z', '9999-12-31T23:59:59Z', 'soon', 5, null])
    t.equal((await bearer.patch(path, { expires_at: bad })).status, 422, String(bad))
})

t.test('an empty X-API-Key counts as absent, with and without a token', async (t) => {
  const { base, person } = await testApp(t, { ALLOW_SIGNUP: 'true' })
  const { token, id } = await person('member')
  const empty = createClient(base, { 'x-api-key': '' })
  const me = await empty.get('/users/me', { authorization: `Bearer ${token}` })
  t.equal(me.body.data?.id, id, me.text)
  const made = await empty.post('/users', { name: 'New', email: 'new@example.com' })
  t.equal(made.status, 201, made.text)
  const none = await empty.get('/users/me')
  t.equal(none.body.error.message, 'Authentication required')
})

const ISSUER = 'https://idp.example.com'
const AUDIENCE = 'shop'

/** Starts an identity provider with a given listener and returns its settings. */
async function provider(t: Test, listener: RequestListener): Promise<Record<string, string>> {
  const server = createServer(listener)
  const port = await listen(server)
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return { AUTH_JWKS_URL: `http://127.0.0.1:${port}/jwks`, AUTH_ISSUER: ISSUER, AUTH_AUDIENCE: AUDIENCE }
}

const sign = (alg: string, key: KeyObject | Uint8Array, kid = 'k') =>
  new SignJWT({ sub: 'them', email: 'member@example.com', email_verified: true })
    .setProtectedHeader({ alg, kid })
    .setIssuer(ISSUER)
    .setAudience(AUDIENCE)
    .setExpirationTime('5m')
    .sign(key)

const answering =
  (keys: unknown): RequestListener =>
  (_request, response) =>
    void response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ keys }))

t.test('keys and replies of an identity provider', async (t) => {
  const database = await createSharedDatabase(t)
  const ed = generateKeyPairSync('ed25519')
  const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 })
  const ec = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const me = ({ base }: TestApp, token: string) =>
    createClient(base, { authorization: `Bearer ${token}` }).get('/users/me')
  const start = async (listener: RequestListener) => testApp(t, await provider(t, listener), { database })

  const jwk = await exportJWK(rsa.publicKey)
  const good = await start(
    answering([
      { ...(await exportJWK(ed.publicKey)), kid: 'ed' },
      { ...jwk, kid: 'rsa' },
      { ...(await exportJWK(ec.publicKey)), kid: 'ec' },
      { kty: 'oct', k: Buffer.alloc(32, 1).toString('base64url'), kid: 'oct' },
    ]),
  )
  const { id } = (await good.admin.post('/users', { name: 'M', email: 'member@example.com' })).body.data
  t.equal((await me(good, await sign('EdDSA', ed.privateKey, 'ed'))).status, 200, 'signs with EdDSA')
  t.equal((await me(good, await sign('RS256', rsa.privateKey, 'rsa'))).status, 200, 'or with RS256')
  const theirs = await me(good, await sign('ES256', ec.privateKey, 'ec'))
  t.equal(theirs.body.data?.id, id, 'or with ES256')
  const origin = { ip: '127.0.0.1', userAgent: 'test' }
  const grant = await good.app.sessions.create({ id, role: 'member' }, origin)
  const ours = await me(good, good.app.accessTokens.issue(grant).text)
  t.equal(
    readWindow(ours).remaining,
    (readWindow(theirs).remaining ?? 0) - 1,
    "tokens of the provider and our own share the user's window",
  )

  const [head, body] = (await sign('RS256', rsa.privateKey, 'rsa')).split('.')
  const hs = (secret: string | Buffer, kid: string) => {
    const header = Buffer.from(JSON.stringify({ alg: 'HS256', kid })).toString('base64url')
    const mac = createHmac('sha256', secret).update(`${header}.${body}`).digest('base64url')
    return `${header}.${body}.${mac}`
  }
  for (const [name, token] of Object.entries({
    'HS256 with the public key as its secret': hs(await exportSPKI(rsa.publicKey), 'rsa'),
    'HS256 with a secret that the provider published': hs(Buffer.alloc(32, 1), 'oct'),
    'another algorithm of the same key': await sign('PS256', rsa.privateKey, 'rsa'),
    RS512: await sign('RS512', rsa.privateKey, 'rsa'),
    'a kid of another kind of key': await sign('RS256', rsa.privateKey, 'ed'),
    'no signature': `${head}.${body}.`,
    none: `${Buffer.from('{"alg":"none"}').toString('base64url')}.${body}.`,
  })) {
    const reply = await me(good, token)
    t.equal(reply.status, 401, `${name}: ${reply.text}`)
    t.equal(reply.body.error.message, 'Invalid or expired token')
  }

  const token = await sign('RS256', rsa.privateKey)
  const small = generateKeyPairSync('rsa', { modulusLength: 1024 })
  for (const [name, listener] of Object.entries<RequestListener>({
    'a key that is none': answering([{ kty: 'RSA', kid: 'k', n: '!!', e: 'AQAB' }]),
    'a key without its parts': answering([{ kty: 'RSA', kid: 'k' }]),
    'a key that is too short': answering([{ ...(await exportJWK(small.publicKey)), kid: 'k' }]),
    'keys that are no list': answering('none'),
    'a redirection': (_request, response) => void response.writeHead(302, { location: '/x' }).end(),
    'half an answer': (_request, response) => void response.writeHead(200).end('{"keys": ['),
  })) {
    const app = await start(listener)
    const reply = await me(app, token)
    t.equal(reply.status, 502, `${name} is a bad answer: ${reply.text}`)
    t.match(reply.body.error.message, 'The identity provider returned an invalid response')
    t.equal((await app.admin.get('/users/me')).status, 200, 'own credentials are not affected')
  }
  for (const [name, listener] of Object.entries<RequestListener>({
    'a line that is cut': (request) => void request.socket.destroy(),
    silence: () => {},
  })) {
    const reply = await me(await start(listener), token)
    t.equal(reply.status, 503, `${name} is no answer: ${reply.text}`)
    t.match(reply.headers.get('retry-after'), /^\d+$/)
  }
})

// The table has no constraint on the role, so another program may write one that the service does not know.
t.test('the credentials of a user with an unknown role are rejected with 401', async (t) => {
  const { database, person } = await testApp(t)
  const { id, client, bearer } = await person('member')
  await database.run(`update users set role = 'constructor' where id = $1`, [id])
  t.equal((await client.get('/products')).status, 401)
  t.equal((await bearer.get('/products')).status, 401)
})
