/** No credential appears in a log line at any level, or in any error. */
import t, { type Test } from 'tap'
import { readConfig } from '../../../http/src/config/read-config.ts'
import { createClient, type Reply, testApp } from '../../../testing/helpers/app.ts'
import { keepOpen, testDatabase } from '../../../testing/helpers/database.ts'
import { startModule } from '../../../testing/helpers/process.ts'
import { intercept } from '../../../testing/helpers/statements.ts'
import { recordLinks } from '../../../testing/src/links.ts'

// Outside production, the links of mails are logged if no mail server is configured.
const MAIL = { MAIL_URL: 'smtp://127.0.0.1:1', MAIL_FROM: 'noreply@example.com' }
const lines: string[] = []
const logs = { write: (line: string) => void lines.push(line) }
const real = keepOpen(await testDatabase(t))
t.teardown(() => real.close())
let isBroken = false
/** An error of a driver that repeats the statement and its values. */
const createFailure = (params: readonly unknown[] = []) =>
  Object.assign(new Error(`canary-statement ${params}`), {
    query: 'select canary-query',
    parameters: [...params, 'canary-parameter'],
    detail: 'Key (email)=(canary-detail)',
    severity: 'ERROR',
    code: 'XX000',
  })
const database = intercept(real, (_, params) => isBroken && Promise.reject(createFailure(params)))
const { anybody, admin, app, base, person } = await testApp(
  t,
  { ...MAIL, LOG_LEVEL: 'trace' },
  { logs, database },
)
const links = recordLinks(app)
const FORM = { 'content-type': 'application/x-www-form-urlencoded' }

/** Sends a request, whose reply must not have a secret. */
const replies: string[] = []
const send = async (t: Test, status: number, sent: Promise<Reply>) => {
  const reply = await sent
  t.equal(reply.status, status, reply.text)
  replies.push(reply.text, JSON.stringify([...reply.headers]))
}

t.test('credentials are in no log line and no error reply', async (t) => {
  const [email, password] = ['mallory@example.com', 'canary-password-0123456789']
  await send(t, 201, admin.post('/users', { name: 'Mallory', email, password }))
  const getToken = (body: unknown) => anybody.post('/tokens', body)
  const signIn = (secret: unknown) => getToken({ grant_type: 'password', email, password: secret })
  const refresh = (secret: string) => getToken({ grant_type: 'refresh_token', refresh_token: secret })
  const { access_token, refresh_token } = (await signIn(password)).body.data
  const renewed = (await refresh(refresh_token)).body.data
  const me = createClient(base, { authorization: `Bearer ${access_token}` })
  const { key } = (await me.post('/api-keys', { name: 'k', scopes: ['*'] })).body.data
  const getProducts = (headers: Record<string, string>) => anybody.get('/products', headers)
  const name = 'canary-as-the-name-1'
  await send(t, 401, signIn('canary-wrong-password'))
  await send(t, 401, refresh('canary-refresh-token'))
  await send(t, 200, me.get('/api-keys'))
  await send(t, 401, getProducts({ authorization: 'Bearer canary-bad-token-canary' }))
  await send(t, 401, getProducts({ authorization: 'Basic Y2FuYXJ5LWJhc2lj' }))
  await send(t, 401, getProducts({ 'x-api-key': 'canary-bad-key' }))
  await send(t, 400, getProducts({ 'x-api-key': 'canary-both', authorization: 'Bearer canary-both-too' }))
  await send(t, 400, getToken('{"grant_type":"password","password":"canary-broken-json"'))
  await send(t, 422, signIn(['canary-in-array']))
  const change = { password: 'canary-new-one', current_password: 'canary-wrong-current' }
  await send(t, 403, me.patch('/users/me', change))
  await send(t, 422, admin.post('/users', { name, email: 'x@example.com', password: name }))
  await send(t, 400, anybody.post('/tokens', '"canary-text"', { cookie: 'session=canary-cookie' }))

  await send(t, 201, anybody.post('/password-resets', { email }))
  const { id, token } = links.at(-1) ?? { id: '', token: '' }
  const complete = (body: unknown) => anybody.patch(`/password-resets/${id}`, body)
  for (const [status, body] of [
    [422, { token, password: email }],
    [403, { token: `${token}canary`, password }],
    [422, { token, password: 'canary' }],
    [422, { token, password: 'canary'.repeat(40) }],
    [422, { token: [token], password: { canary: 1 } }],
    [400, `{"token": "${token}"`],
    [200, { token, password: 'canary-of-a-reset' }],
    [403, { token, password: 'canary-of-a-reset' }],
  ] as const)
    await send(t, status, complete(body))
  await anybody.get(`/account/reset?id=${id}&token=${token}`)
  const form = new URLSearchParams({ id, token, password: 'canary-of-a-form' }).toString()
  await anybody.call('POST', '/account/reset', { body: form, headers: FORM })
  // A reply repeats the address that was sent in `Link` to its client.
  await me.get(`/products?search=x&access_token=canary-in-query&key=canary-in-query`)

  t.ok(lines.length >= 15, `${lines.length} lines were logged`)
  t.match(lines.join(''), '/account/reset')
  const own = [password, access_token, refresh_token, token]
  const all = [...own, renewed.refresh_token, renewed.access_token, key, 'Y2FuYXJ5LWJhc2lj', 'canary-']
  for (const secret of all)
    t.notOk(lines.join('').includes(secret), `${secret.slice(0, 12)}... is in no line`)
  for (const secret of [
    ...own,
    'canary-wrong',
    'canary-in',
    'canary-broken',
    'canary-b',
    'canary-new',
    'canary-of',
  ])
    t.notOk(replies.join('').includes(secret), `${secret.slice(0, 16)}... is in no reply`)
})

t.test('credentials stay out of logs in unusual places and in internal errors', async (t) => {
  lines.length = 0
  replies.length = 0
  const { id, token, key } = await person('member')
  const grant = await app.sessions.create({ id, role: 'member' }, { ip: '', userAgent: undefined })
  const refresh_token = grant.refreshToken
  const secrets = [token, key, refresh_token]
  for (const secret of secrets) {
    // A reply repeats a field name in `field` and a path in `Link` to its client. No log contains either.
    t.equal((await admin.get(`/products?${secret}=1`)).status, 400)
    t.equal((await admin.post('/products', { [secret]: 1 })).status, 422)
    t.equal((await admin.get(`/products/${secret}`)).status, 404)
    t.equal((await anybody.get(`/products/x${secret}%`)).status, 400)
    const text = encodeURIComponent(secret)
    await send(t, 400, admin.get(`/products?cursor=${text}`))
    await send(t, 401, anybody.get(`/products?access_token=${text}`))
    await send(t, 401, anybody.get('/products', { authorization: `Basic ${secret}` }))
    await send(t, 401, anybody.get('/products', { authorization: secret }))
    await send(t, 400, anybody.post('/tokens', `{"grant_type": "refresh_token", "refresh_token": "${secret}`))
    await send(t, 422, anybody.post('/tokens', { grant_type: secret }))
    await send(t, 422, anybody.post('/tokens', { grant_type: 'refresh_token', refresh_token: [secret] }))
    await send(t, 422, admin.post('/users', { name: 'x', email: secret, role: secret }))
  }
  await send(t, 401, anybody.get('/products', { authorization: `Bearer ${key}` }))
  await send(t, 401, anybody.get('/products', { 'x-api-key': token }))
  await send(t, 401, anybody.get('/products', { 'x-api-key': refresh_token }))

  isBroken = true
  const password = 'canary-password-of-a-500'
  await send(t, 500, anybody.post('/tokens', { grant_type: 'password', email: 'a@example.com', password }))
  await send(t, 500, anybody.post('/tokens', { grant_type: 'refresh_token', refresh_token }))
  await send(t, 500, createClient(base, { authorization: `Bearer ${token}` }).get('/users/me'))
  await send(t, 500, createClient(base, { 'x-api-key': key }).get('/users/me'))
  isBroken = false

  const logged = lines.join('')
  t.ok(lines.length >= 30, `${lines.length} lines were logged`)
  t.match(logged, /"level":"error"/)
  for (const [where, text] of Object.entries({ 'a line': logged, 'a reply': replies.join('') })) {
    for (const secret of [...secrets, 'canary-'])
      t.notOk(text.includes(secret), `${secret.slice(0, 8)}... is not in ${where}`)
  }
})

t.test('an invalid setting is named without its value', async (t) => {
  const wrong = {
    JWT_PRIVATE_KEY: '-----BEGIN PRIVATE KEY-----\ncanary-jwt\n-----END PRIVATE KEY-----',
    APP_SECRET: 'canary-short',
    ADMIN_API_KEY: 'canary-short',
    ADMIN_PASSWORD: 'canary-pass',
    METRICS_TOKEN: 'canary-short',
    DATABASE_URL: 'mysql://user:canary-database@127.0.0.1/x',
    REDIS_URL: 'http://user:canary-redis@127.0.0.1',
    TLS_KEY: 'canary-tls-key',
  }
  const { output, ended } = startModule(t, 'server.ts', { ...wrong, LOG_LEVEL: 'trace' })
  t.equal((await ended).code, 1)
  for (const name of Object.keys(wrong)) t.match(output.err, name)
  t.notMatch(output.out + output.err, /canary-/)
  const message = 'JWT_PRIVATE_KEY must be one or more Ed25519 private keys, as PEM or JWK'
  for (const key of ['{"kty":"OKP","crv":"Ed25519","d":"canary-jwk"}', '[{"d": "canary-json"', 'canary-text'])
    t.throws(() => readConfig({ JWT_PRIVATE_KEY: key }), { message })
})
