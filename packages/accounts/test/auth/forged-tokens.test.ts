/** Tokens with another signature, algorithm, purpose or claims are all rejected with the same 401. */
import { createHmac, createPublicKey, generateKeyPairSync, type KeyObject, sign } from 'node:crypto'
import t from 'tap'
import { v7 as uuid } from 'uuid'
import { createClient, testApp } from '../../../testing/helpers/app.ts'
import { createSharedDatabase } from '../../../testing/helpers/database.ts'

const PRIVATE = generateKeyPairSync('ed25519').privateKey
const PEM = PRIVATE.export({ format: 'pem', type: 'pkcs8' }).toString()
const PUBLIC = createPublicKey(PRIVATE)

const part = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')
const bySigning = (key: KeyObject) => (input: string) =>
  sign(null, Buffer.from(input), key).toString('base64url')
const byHmac = (secret: string | Buffer) => (input: string) =>
  createHmac('sha256', secret).update(input).digest('base64url')
const unsigned = () => ''

t.test('forged tokens', async (t) => {
  const { app, base, person } = await testApp(t, { JWT_PRIVATE_KEY: PEM })
  const ada = await person('member')
  const [head = '', body = '', signature = ''] = ada.token.split('.')
  const header = JSON.parse(Buffer.from(head, 'base64url').toString())
  const claims = JSON.parse(Buffer.from(body, 'base64url').toString())
  const now = Math.floor(Date.now() / 1000)

  const make = (
    changedHeader: Record<string, unknown>,
    changedClaims: Record<string, unknown> = {},
    signer: (input: string) => string = bySigning(PRIVATE),
  ) => {
    const input = `${part({ ...header, ...changedHeader })}.${part({ ...claims, ...changedClaims })}`
    return `${input}.${signer(input)}`
  }
  const call = (token: string) => createClient(base, { authorization: `Bearer ${token}` }).get('/users/me')
  const refused = async (name: string, token: string) => {
    const { status, body, headers } = await call(token)
    t.equal(status, 401, name)
    t.match(body.error, { code: 'UNAUTHORIZED', message: 'Invalid or expired token' }, name)
    t.match(headers.get('www-authenticate'), /^Bearer realm=/)
  }

  t.equal((await call(ada.token)).status, 200, 'the real one is good')
  t.equal((await call(make({}))).status, 200, 'and so is what this test signs with the real key')
  t.match(header, { alg: 'EdDSA', typ: 'at+jwt', kid: /^.{43}$/ })
  const service = 'resource-api'
  t.match(claims, { iss: service, aud: service, sub: ada.id, sid: ada.sessionId, role: 'member' })
  t.equal(claims.exp - claims.iat, 900)

  for (const alg of ['none', 'None', 'NONE', 'nOnE', '']) {
    await refused(`alg ${alg} without a signature`, make({ alg }, {}, unsigned))
    await refused(`alg ${alg} with the old signature`, `${part({ ...header, alg })}.${body}.${signature}`)
  }
  await refused('EdDSA without a signature', make({}, {}, unsigned))

  const der = PUBLIC.export({ format: 'der', type: 'spki' })
  const pem = PUBLIC.export({ format: 'pem', type: 'spki' }).toString()
  const jwk = PUBLIC.export({ format: 'jwk' })
  for (const [name, secret] of Object.entries<string | Buffer>({
    PEM: pem,
    DER: der,
    'the raw point': Buffer.from(jwk.x ?? '', 'base64url'),
    'the JWK': JSON.stringify(jwk),
    nothing: '',
  })) {
    const token = make({ alg: 'HS256' }, {}, byHmac(secret))
    await refused(`HS256 with the public key as its secret: ${name}`, token)
  }

  const stranger = generateKeyPairSync('ed25519')
  const strangerJwk = stranger.publicKey.export({ format: 'jwk' })
  const byStranger = bySigning(stranger.privateKey)
  for (const [name, changed] of Object.entries({
    'under the real kid': {},
    'under a kid of its own': { kid: 'stranger' },
    'without a kid': { kid: undefined },
    'with itself in the header, jwk': { jwk: strangerJwk },
    'with itself alone in the header, jwk': { jwk: strangerJwk, kid: undefined },
    'with an address, jku': { jku: `${base}/.well-known/jwks.json`, kid: 'x' },
    'with an address, x5u': { x5u: 'http://127.0.0.1:1/cert', kid: 'x' },
    'with a certificate, x5c': { x5c: [der.toString('base64')], kid: 'x' },
  }))
    await refused(`a stranger's key ${name}`, make(changed, {}, byStranger))
  for (const kid of ['../../../../dev/null', "' or 1=1 --", '', 'constructor', '__proto__']) {
    await refused(`kid ${kid}`, make({ kid }, {}, byStranger))
    await refused(`kid ${kid}, an empty secret`, make({ kid, alg: 'HS256' }, {}, byHmac('')))
  }
  for (const kid of [1, null, {}, [header.kid], true])
    await refused(`kid ${JSON.stringify(kid)}`, make({ kid }))
  await refused('crit', make({ crit: ['exp'] }))
  await refused('crit of something unknown', make({ crit: ['b64'], b64: false }))

  await refused('typ JWT', make({ typ: 'JWT' }))
  await refused('no typ', make({ typ: undefined }))
  for (const [name, value] of [
    ['iss', 'another-issuer'],
    ['iss', 'resource-api.example.com'],
    ['aud', 'something'],
    ['exp', now - 3600],
    ['exp', String(now + 900)],
    ['nbf', now + 3600],
    ['sid', uuid()],
    ['sid', "' or 1=1 --"],
  ] as const)
    await refused(`${name} ${value}`, make({}, { [name]: value }))
  for (const name of ['iss', 'aud', 'sub', 'sid', 'role', 'exp', 'iat', 'jti'])
    await refused(`without ${name}`, make({}, { [name]: undefined }))

  t.test('the times in a token have 30 s of leeway, also when the token is cached', async (t) => {
    const at = (seconds: number) => Math.floor(Date.now() / 1000) + seconds
    for (const [name, seconds, status] of [
      ['exp', 60, 200],
      ['exp', 0, 200],
      ['exp', -2, 200],
      ['exp', -31, 401],
      ['nbf', -1, 200],
      ['nbf', 2, 200],
      ['nbf', 20, 200],
      ['nbf', 60, 401],
      ['iat', 20, 200],
    ] as const) {
      t.equal((await call(make({}, { [name]: at(seconds) }))).status, status, `${name} ${seconds}`)
    }
    const token = make({}, { exp: at(60) })
    const { now } = Date
    for (const [seconds, status] of [
      [0, 200],
      [65, 200],
      [95, 401],
    ] as const) {
      const clock = t.intercept(Date, 'now', { value: () => now() + seconds * 1000 })
      t.equal((await call(token)).status, status, `${seconds} s later`)
      clock.restore()
    }
  })

  const changed = (value: Record<string, unknown>) => `${head}.${part({ ...claims, ...value })}.${signature}`
  await refused('another user in the claims', changed({ sub: uuid() }))
  await refused('another role in the claims', changed({ role: 'admin' }))
  await refused('a later end in the claims', changed({ exp: claims.exp + 1 }))
  const promoted = createClient(base, { authorization: `Bearer ${make({}, { role: 'admin' })}` })
  t.equal((await promoted.get('/users')).status, 403, 'the role is that of the user, whatever a token says')

  const grant = await app.sessions.create({ id: ada.id, role: 'member' }, { ip: '', userAgent: undefined })
  for (const [name, token] of Object.entries({
    'a refresh token': grant.refreshToken,
    'an API key': ada.key,
    'no token': '',
    'two parts': `${head}.${body}`,
    'four parts': `${ada.token}.x`,
    garbage: 'a.b.c',
    'a very long one': `${'a'.repeat(9000)}.b.c`,
    'the signature of another key size': `${head}.${body}.${'A'.repeat(20)}`,
    padding: `${ada.token}==`,
  }))
    await refused(name, token)

  t.test('the key set verifies issued tokens and contains no private key', async (t) => {
    const { body, headers } = await createClient(base, {}).get('/.well-known/jwks.json')
    t.match(body.keys, [{ kid: header.kid, kty: 'OKP', crv: 'Ed25519', alg: 'EdDSA', use: 'sig', x: jwk.x }])
    t.notOk('d' in body.keys[0])
    t.match(headers.get('cache-control'), /max-age/)
  })
})

t.test('rotating signing keys keeps sessions signed in', async (t) => {
  const next = generateKeyPairSync('ed25519').privateKey.export({ format: 'pem', type: 'pkcs8' }).toString()
  const database = await createSharedDatabase(t)
  const before = await testApp(t, { JWT_PRIVATE_KEY: PEM }, { database })
  const ada = await before.person('member')
  const after = await testApp(t, { JWT_PRIVATE_KEY: `${next}\n${PEM}` }, { database })
  const me = (base: string, token: string) =>
    createClient(base, { authorization: `Bearer ${token}` }).get('/users/me')
  t.equal((await me(after.base, ada.token)).status, 200, 'what the old key signed is still good')
  const grant = { userId: ada.id, sessionId: ada.sessionId, role: 'member' } as const
  const fresh = after.app.accessTokens.issue(grant).text
  t.equal((await me(after.base, fresh)).status, 200)
  t.equal((await me(before.base, fresh)).status, 401, 'who does not know the new key cannot verify it')
  t.equal((await createClient(after.base, {}).get('/.well-known/jwks.json')).body.keys.length, 2)
  const without = await testApp(t, { JWT_PRIVATE_KEY: next }, { database })
  t.equal((await me(without.base, ada.token)).status, 401, 'once the old key is gone, so is what it signed')
  t.equal((await me(without.base, fresh)).status, 200)
})
