/** No credential appears in a log line at any level, or in any error. */
import t from 'tap'
import { readConfig } from '../../src/config.ts'
import { createClient, testApp } from '../helpers/app.ts'
import { keepOpen, testDatabase } from '../helpers/database.ts'
import { startModule } from '../helpers/process.ts'

t.test('credentials are in no log line and no error reply', async (t) => {
  const lines: string[] = []
  const logs = { write: (line: string) => void lines.push(line) }
  const password = 'canary-password-0123456789'
  const { anybody, admin, base } = await testApp(t, { LOG_LEVEL: 'trace' }, { logs })
  const created = await admin.post('/users', { name: 'Canary', email: 'canary@example.com', password })
  const getToken = (body: unknown) => anybody.post('/tokens', body)
  const signIn = (secret: unknown) =>
    getToken({ grant_type: 'password', email: 'canary@example.com', password: secret })
  const refresh = (secret: string) => getToken({ grant_type: 'refresh_token', refresh_token: secret })
  const { access_token, refresh_token } = (await signIn(password)).body.data
  const renewed = (await refresh(refresh_token)).body.data
  const me = createClient(base, { authorization: `Bearer ${access_token}` })
  const { key } = (await me.post('/api-keys', { name: 'k', scopes: ['*'] })).body.data
  const getProducts = (headers: Record<string, string>) => anybody.get('/products', headers)
  const name = 'canary-as-the-name-1'
  const replies = [
    created,
    await signIn('canary-wrong-password'),
    await refresh('canary-refresh-token'),
    await me.get('/api-keys'),
    await me.get(`/products?search=x&access_token=canary-in-query&key=canary-in-query`),
    await getProducts({ authorization: 'Bearer canary-bad-token-canary' }),
    await getProducts({ authorization: 'Basic Y2FuYXJ5LWJhc2lj' }),
    await getProducts({ 'x-api-key': 'canary-bad-key' }),
    await getProducts({ 'x-api-key': 'canary-both', authorization: 'Bearer canary-both-too' }),
    await getToken('{"grant_type":"password","password":"canary-broken-json"'),
    await signIn(['canary-in-array']),
    await me.patch('/users/me', { password: 'canary-new-one', current_password: 'canary-wrong-current' }),
    await admin.post('/users', { name, email: 'x@example.com', password: name }),
    await anybody.post('/tokens', '"canary-text"', { cookie: 'session=canary-cookie' }),
  ].map(({ text }) => text)

  t.ok(lines.length >= 15, `${lines.length} lines were logged`)
  const own = [password, access_token, refresh_token]
  const shown = [...own, renewed.refresh_token, renewed.access_token, key, 'Y2FuYXJ5LWJhc2lj', 'canary-']
  for (const secret of shown)
    t.notOk(lines.join('').includes(secret), `${secret.slice(0, 12)}... is in no line`)
  for (const secret of [...own, 'canary-wrong', 'canary-in', 'canary-broken', 'canary-b', 'canary-new']) {
    t.notOk(replies.join('').includes(secret), `${secret.slice(0, 16)}... is in no reply`)
  }
})

t.test('credentials stay out of logs in unusual places and in internal errors', async (t) => {
  const lines: string[] = []
  const logs = { write: (line: string) => void lines.push(line) }
  const real = keepOpen(await testDatabase(t))
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
  const database = {
    ...real,
    run: (text: string, params?: Parameters<typeof real.run>[1]) =>
      isBroken ? Promise.reject(createFailure(params)) : real.run(text, params),
  }
  const { anybody, admin, app, base, person } = await testApp(t, { LOG_LEVEL: 'trace' }, { logs, database })
  t.teardown(() => real.close())
  const { id, token, key } = await person('member')
  const grant = await app.sessions.create({ id, role: 'member' }, { ip: '', userAgent: undefined })
  const refresh_token = grant.refreshToken
  const secrets = [token, key, refresh_token]
  const replies: string[] = []
  const send = async (status: number, sent: ReturnType<typeof anybody.get>) => {
    const reply = await sent
    t.equal(reply.status, status, reply.text)
    replies.push(reply.text, JSON.stringify([...reply.headers]))
  }
  for (const secret of secrets) {
    // A reply repeats a field name in `field` and a path in `Link` to its client. No log contains either.
    t.equal((await admin.get(`/products?${secret}=1`)).status, 400)
    t.equal((await admin.post('/products', { [secret]: 1 })).status, 422)
    t.equal((await admin.get(`/products/${secret}`)).status, 404)
    t.equal((await anybody.get(`/products/x${secret}%`)).status, 400)
    const text = encodeURIComponent(secret)
    await send(400, admin.get(`/products?cursor=${text}`))
    await send(401, anybody.get(`/products?access_token=${text}`))
    await send(401, anybody.get('/products', { authorization: `Basic ${secret}` }))
    await send(401, anybody.get('/products', { authorization: secret }))
    await send(400, anybody.post('/tokens', `{"grant_type": "refresh_token", "refresh_token": "${secret}`))
    await send(422, anybody.post('/tokens', { grant_type: secret }))
    await send(422, anybody.post('/tokens', { grant_type: 'refresh_token', refresh_token: [secret] }))
    await send(422, admin.post('/users', { name: 'x', email: secret, role: secret }))
  }
  await send(401, anybody.get('/products', { authorization: `Bearer ${key}` }))
  await send(401, anybody.get('/products', { 'x-api-key': token }))
  await send(401, anybody.get('/products', { 'x-api-key': refresh_token }))

  isBroken = true
  const password = 'canary-password-of-a-500'
  await send(500, anybody.post('/tokens', { grant_type: 'password', email: 'a@example.com', password }))
  await send(500, anybody.post('/tokens', { grant_type: 'refresh_token', refresh_token }))
  await send(500, createClient(base, { authorization: `Bearer ${token}` }).get('/users/me'))
  await send(500, createClient(base, { 'x-api-key': key }).get('/users/me'))
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
