/** POST /tokens signs in and refreshes sessions, and detects reuse of a refresh token. */

import { generateKeyPairSync } from 'node:crypto'
import { createServer } from 'node:http'
import { exportJWK, SignJWT } from 'jose'
import t from 'tap'
import { createRefreshTokens } from '../../plugins/auth/tokens/refresh-token.ts'
import { deriveKey } from '../../src/secrets.ts'
import { APP_SECRET, type Client, createClient, type TestApp, testApp } from '../helpers/app.ts'
import { listen } from '../helpers/listen.ts'
import { getViolations } from '../helpers/lists.ts'
import { readWindow } from '../helpers/rate-limits.ts'
import { createSharedDatabase } from '../helpers/shared-database.ts'

/** The same refresh tokens as those of the app, which derives their key from the secret of `testApp`. */
const refreshTokens = createRefreshTokens(deriveKey(APP_SECRET, 'refresh tokens'))

const PASSWORD = 'correct horse battery'
/** Makes the uses of a session's refresh tokens as old as the grace and a second more. */
const AGE = `update sessions set rotations = array(select unnest(rotations) - interval '11 seconds') where id = $1`
let count = 0

async function withPassword({ admin, base }: Pick<TestApp, 'admin' | 'base'>) {
  const email = `ada${count++}@example.com`
  const { body } = await admin.post('/users', { name: 'Ada', email, password: PASSWORD })
  const signIn = (password = PASSWORD) =>
    createClient(base, {}).post('/tokens', { grant_type: 'password', email, password })
  return { id: String(body.data.id), email, signIn }
}

const bearer = (base: string, token: string): Client =>
  createClient(base, { authorization: `Bearer ${token}` })

t.test('tokens', async (t) => {
  const database = await createSharedDatabase(t)
  const app = await testApp(t, {}, { database })
  const other = await testApp(t, {}, { database })
  const { anybody, base } = app
  const refresh = (token: string, client = anybody) =>
    client.post('/tokens', { grant_type: 'refresh_token', refresh_token: token })

  t.test('a 201 has the tokens, their lifetimes and the session', async (t) => {
    const ada = await withPassword(app)
    const { status, body, headers } = await ada.signIn()
    t.equal(status, 201)
    t.match(body.data, {
      id: /^[0-9a-f-]{36}$/,
      token_type: 'Bearer',
      access_token: /^[\w-]+\.[\w-]+\.[\w-]+$/,
      expires_in: 900,
      refresh_token: /^rrt_[\w-]{90,}$/,
      refresh_expires_in: 30 * 24 * 3600,
      session_id: /^[0-9a-f-]{36}$/,
      user_id: ada.id,
    })
    t.equal(headers.get('cache-control'), 'no-store')
    t.equal(headers.get('api-version'), '1')
    t.equal((await bearer(base, body.data.access_token).get('/users/me')).body.data.id, ada.id)
  })

  t.test(
    'an unknown email, a wrong password, no password and an inactive user get the same 401',
    async (t) => {
      const ada = await withPassword(app)
      const wrong = await ada.signIn('wrong horse battery')
      const unknown = await anybody.post('/tokens', {
        grant_type: 'password',
        email: 'nobody@example.com',
        password: PASSWORD,
      })
      const { body } = await app.admin.post('/users', { name: 'Bob', email: 'bob@example.com' })
      const without = await anybody.post('/tokens', {
        grant_type: 'password',
        email: 'bob@example.com',
        password: PASSWORD,
      })
      await app.admin.patch(`/users/${ada.id}`, { status: 'suspended' })
      const suspended = await ada.signIn()
      for (const reply of [wrong, unknown, without, suspended]) {
        t.equal(reply.status, 401)
        t.equal(reply.body.error.message, wrong.body.error.message)
        t.match(reply.headers.get('www-authenticate'), /^Bearer/)
      }
      t.ok(body.data.id)
    },
  )

  t.test('an invalid grant is rejected with 422, a query string with 400', async (t) => {
    const problems = async (body: unknown) => {
      const reply = await anybody.post('/tokens', body)
      t.equal(reply.status, 422, reply.text)
      return getViolations(reply)
    }
    t.same(await problems({}), ['grant_type REQUIRED'])
    t.same(await problems({ grant_type: 'client_credentials' }), ['grant_type INVALID_VALUE'])
    t.same(await problems({ grant_type: 5 }), ['grant_type INVALID_TYPE'])
    t.same(await problems({ grant_type: 'password' }), ['email REQUIRED', 'password REQUIRED'])
    t.same(await problems({ grant_type: 'refresh_token', email: 'a@example.com' }), [
      'email UNKNOWN_FIELD',
      'refresh_token REQUIRED',
    ])
    const typed = await anybody.post('/v2/tokens', {
      data: { type: 'tokens', attributes: { grant_type: 'password' } },
    })
    t.same(getViolations(typed), ['data.attributes.email REQUIRED', 'data.attributes.password REQUIRED'])
    t.equal((await anybody.post('/tokens?x=1', { grant_type: 'password' })).status, 400)
    t.equal((await anybody.get('/tokens')).status, 405)
  })

  t.test('20 concurrent refreshes of one token in two processes give one successor', async (t) => {
    const { body } = await (await withPassword(app)).signIn()
    const all = await Promise.all(
      Array.from({ length: 20 }, (_, i) => refresh(body.data.refresh_token, i % 2 ? other.anybody : anybody)),
    )
    t.same(new Set(all.map(({ status }) => status)), new Set([201]))
    const successors = new Set(all.map((reply) => reply.body.data.refresh_token))
    t.equal(successors.size, 1)
    const [next = ''] = successors
    t.not(next, body.data.refresh_token)
    t.equal((await refresh(next)).status, 201, 'and it is good')
  })

  t.test('a token reused after the grace period ends the session, also in a second process', async (t) => {
    const { body } = await (await withPassword(app)).signIn()
    const { refresh_token: first, session_id: session, access_token: access } = body.data
    const second = (await refresh(first)).body.data.refresh_token
    await database.run(AGE, [session])
    t.equal((await refresh(first, other.anybody)).status, 401)
    t.equal((await refresh(second)).status, 401, 'the whole family is gone')
    t.equal((await bearer(base, access).get('/users/me')).status, 401)
  })

  t.test('a token reused within the grace period yields its own successor again', async (t) => {
    const { body } = await (await withPassword(app)).signIn()
    const first: string = body.data.refresh_token
    const second = (await refresh(first)).body.data.refresh_token
    const third = (await refresh(second)).body.data.refresh_token
    t.equal((await refresh(first, other.anybody)).body.data.refresh_token, second)
    t.equal((await refresh(second)).body.data.refresh_token, third)
    t.equal((await refresh(third)).status, 201)
  })

  t.test('an older token ends the session after the grace period, a forged one does not', async (t) => {
    const { body } = await (await withPassword(app)).signIn()
    const first: string = body.data.refresh_token
    const forged = `${first.slice(0, -3)}${first.endsWith('AAA') ? 'BBB' : 'AAA'}`
    t.equal((await refresh(forged)).status, 401)
    const second = (await refresh(first)).body.data.refresh_token
    const third = (await refresh(second)).body.data.refresh_token
    t.equal((await refresh(forged)).status, 401)
    t.equal((await refresh('rrt_nonsense')).status, 401)
    t.equal((await refresh(third)).status, 201, 'nothing was ended by those')
    await database.run(AGE, [body.data.session_id])
    t.equal((await refresh(first)).status, 401)
    t.equal((await refresh(third)).status, 401)
  })

  t.test('a reuse after 50,000 rotations is rejected with 401 and ends the session', async (t) => {
    /** A session whose refresh token was rotated 50,000 times, with its first and its current token. */
    const rotated = async () => {
      const { body } = await (await withPassword(app)).signIn()
      const { refresh_token: first, session_id: session, access_token: access } = body.data
      let token = refreshTokens.read(first)
      if (!token) throw new Error('the refresh token cannot be read')
      for (let i = 0; i < 50_000; i++) token = refreshTokens.getSuccessor(token)
      await database.run(
        `update sessions set generation = $2, refresh_hash = $3,
           rotations = array(select now() from generate_series(1, 20)) where id = $1`,
        [session, token.generation, refreshTokens.hash(token)],
      )
      return { first, session, access, current: refreshTokens.write(token) }
    }
    const control = await rotated()
    t.equal((await refresh(control.current)).status, 201, 'the current token is good')

    const { first, session, access, current } = await rotated()
    const replay = await refresh(first)
    t.equal(replay.status, 401, replay.text)
    t.same(await database.run('select id from sessions where id = $1', [session]), [])
    t.equal((await refresh(current)).status, 401, 'the current token has ended as well')
    t.equal((await bearer(base, access).get('/users/me')).status, 401)
  })

  t.test('the 20 latest rotations are stored, and an older token ends the session', async (t) => {
    const { body } = await (await withPassword(app)).signIn()
    const chain: string[] = [body.data.refresh_token]
    const rotate = async () => {
      const { status, body } = await refresh(chain.at(-1) ?? '')
      t.equal(status, 201)
      chain.push(body.data.refresh_token)
    }
    for (let i = 0; i < 20; i++) await rotate()
    t.equal((await refresh(chain[0] ?? '')).body.data.refresh_token, chain[1], 'within the grace')
    await rotate()
    t.equal((await refresh(chain[1] ?? '')).body.data.refresh_token, chain[2])
    t.equal((await refresh(chain[0] ?? '')).status, 401)
    t.equal((await refresh(chain.at(-1) ?? '')).status, 401, 'the session has ended')
  })

  t.test(
    'a token of a later generation than the stored one is rejected with 401 and ends nothing',
    async (t) => {
      const { body } = await (await withPassword(app)).signIn()
      const first = refreshTokens.read(body.data.refresh_token)
      if (!first) throw new Error('the refresh token cannot be read')
      const ahead = refreshTokens.write(refreshTokens.getSuccessor(first))
      t.equal((await refresh(ahead)).status, 401)
      t.equal((await refresh(body.data.refresh_token)).status, 201)
    },
  )

  t.test('a session expires after 30 days without use, and after 90 days in total', async (t) => {
    const { body } = await (await withPassword(app)).signIn()
    const { session_id: session } = body.data
    await database.run(`update sessions set ends_at = now() + interval '1 hour' where id = $1`, [session])
    const last = await refresh(body.data.refresh_token)
    t.ok(last.body.data.refresh_expires_in <= 3600, 'refreshing does not lead beyond the 90 days')
    await database.run(`update sessions set expires_at = now() where id = $1`, [session])
    t.equal((await refresh(last.body.data.refresh_token)).status, 401)
  })

  t.test('the database contains hashes of tokens only', async (t) => {
    const { body } = await (await withPassword(app)).signIn()
    const [row] = await database.run('select * from sessions where id = $1', [body.data.session_id])
    const text = JSON.stringify(row)
    t.notOk(text.includes(body.data.refresh_token))
    t.notOk(text.includes(body.data.refresh_token.slice(40, 80)))
    t.match(row?.refresh_hash, /^[0-9a-f]{64}$/)
  })

  t.test(
    'changing the own password needs a token and current_password, and ends the other sessions',
    async (t) => {
      const ada = await withPassword(app)
      const [here, there] = await Promise.all([ada.signIn(), ada.signIn()])
      const me = bearer(base, here.body.data.access_token)
      t.same(getViolations(await me.patch('/users/me', { password: 'another good secret' })), [
        'current_password REQUIRED',
      ])
      t.equal(
        (await me.patch('/users/me', { password: 'another good secret', current_password: 'x' })).status,
        403,
      )
      const changed = await me.patch('/users/me', {
        password: 'another good secret',
        current_password: PASSWORD,
      })
      t.equal(changed.status, 200, changed.text)
      t.equal((await me.get('/users/me')).status, 200, 'this session goes on')
      t.equal((await bearer(base, there.body.data.access_token).get('/users/me')).status, 401)
      t.equal((await refresh(there.body.data.refresh_token)).status, 401)
      t.equal((await ada.signIn()).status, 401)
      t.equal((await ada.signIn('another good secret')).status, 201)
    },
  )

  t.test('a suspension takes effect immediately in the same process', async (t) => {
    const ada = await withPassword(app)
    const { body } = await ada.signIn()
    const me = bearer(base, body.data.access_token)
    t.equal((await me.get('/users/me')).status, 200)
    await app.admin.patch(`/users/${ada.id}`, { status: 'suspended' })
    t.equal((await me.get('/users/me')).status, 401)
    await app.admin.patch(`/users/${ada.id}`, { status: 'active' })
    t.equal((await refresh(body.data.refresh_token)).status, 401, 'it had ended the sessions')
  })
})

t.test('users can sign up if sign-up is allowed', async (t) => {
  const closed = await testApp(t)
  const body = { name: 'New', email: 'new@example.com', password: PASSWORD }
  t.equal((await closed.anybody.post('/users', body)).status, 401)
  const { anybody, admin, person } = await testApp(t, { ALLOW_SIGNUP: 'true' })
  t.same(getViolations(await anybody.post('/users', { ...body, role: 'admin', status: 'active' })), [
    'role READ_ONLY',
    'status READ_ONLY',
  ])
  const made = await anybody.post('/users', body)
  t.equal(made.status, 201, made.text)
  t.match(made.body.data, { role: 'member', status: 'active' })
  t.equal((await anybody.get(`/users/${made.body.data.id}`)).status, 401, 'nothing else is open')
  t.equal(
    (await anybody.post('/users', body, { 'x-api-key': 'bad' })).status,
    401,
    'bad credentials are not none',
  )
  t.equal(
    (await (await person('member')).client.post('/users', { ...body, email: 'x@example.com' })).status,
    403,
  )
  t.equal((await admin.post('/users', { ...body, email: 'y@example.com', role: 'admin' })).status, 201)
})

t.test('tokens of an identity provider are verified with its key set', async (t) => {
  const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 })
  const ec = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  let answer: () => { status: number; body: string } = () => ({ status: 500, body: 'oops' })
  let asked = 0
  const provider = createServer((_request, response) => {
    asked++
    const { status, body } = answer()
    response.writeHead(status, { 'content-type': 'application/json' }).end(body)
  })
  t.teardown(() => provider.close())
  const url = `http://127.0.0.1:${await listen(provider)}/jwks`
  const settings = { AUTH_JWKS_URL: url, AUTH_ISSUER: 'https://idp.example.com', AUTH_AUDIENCE: 'shop' }
  const database = await createSharedDatabase(t)
  const start = () => testApp(t, settings, { database })

  const keys = [
    { ...(await exportJWK(rsa.publicKey)), kid: 'rsa', alg: 'RS256' },
    { ...(await exportJWK(ec.publicKey)), kid: 'ec', alg: 'ES256' },
  ]
  const token = (
    claims: Record<string, unknown> = {},
    kid: 'rsa' | 'ec' = 'rsa',
    header: Record<string, string> = {},
  ) =>
    new SignJWT({ email: 'Member@Example.com', email_verified: true, ...claims })
      .setProtectedHeader({ alg: kid === 'rsa' ? 'RS256' : 'ES256', kid, ...header })
      .setIssuer('https://idp.example.com')
      .setAudience('shop')
      .setSubject('them')
      .setExpirationTime('5m')
      .sign(kid === 'rsa' ? rsa.privateKey : ec.privateKey)

  const bad = await start()
  const { body } = await bad.admin.post('/users', { name: 'Member', email: 'member@example.com' })
  const me = async ({ base }: TestApp, text: string) => bearer(base, text).get('/users/me')

  const garbled = await me(bad, await token())
  t.equal(garbled.status, 502, garbled.text)
  t.equal(garbled.body.error.code, 'BAD_GATEWAY')
  answer = () => ({ status: 200, body: '{"hello": "world"}' })
  t.equal((await me(await start(), await token())).status, 502, 'an answer that is no key set')

  answer = () => ({ status: 200, body: JSON.stringify({ keys: [keys[0]] }) })
  const app = await start()
  const good = await me(app, await token())
  t.equal(good.status, 200, good.text)
  t.equal(good.body.data.id, body.data.id, 'the active user with that verified e-mail address')
  const before = asked
  for (let i = 0; i < 5; i++) await me(app, await token({ n: i }))
  t.equal(asked, before, 'its keys are kept')
  const origin = { ip: '127.0.0.1', userAgent: 'test' }
  const grant = await app.app.sessions.create({ id: body.data.id, role: 'member' }, origin)
  const own = await me(app, app.app.accessTokens.issue(grant).text)
  const theirs = await me(app, await token())
  t.equal(
    readWindow(own).remaining,
    (readWindow(theirs).remaining ?? 0) + 1,
    "its tokens and ours have the user's one window",
  )

  const refusals: [string, Promise<string>][] = [
    ['another audience', token({ aud: 'other' })],
    ['expired', token({ exp: 1 })],
    ['an unknown kid', token({}, 'rsa', { kid: 'new' })],
  ]
  for (const [name, text] of refusals) {
    const claims = name === 'another audience' || name === 'expired'
    const forged = claims ? await forge(name === 'expired') : await text
    t.equal((await me(app, forged)).status, 401, name)
  }
  function forge(expired: boolean) {
    return new SignJWT({ sub: 'them', email: 'member@example.com', email_verified: true })
      .setProtectedHeader({ alg: 'RS256', kid: 'rsa' })
      .setIssuer('https://idp.example.com')
      .setAudience(expired ? 'shop' : 'other')
      .setExpirationTime(expired ? 1 : '5m')
      .sign(rsa.privateKey)
  }
  const asking = asked
  for (let i = 0; i < 10; i++) await me(app, await token({ i }, 'rsa', { kid: 'unknown' }))
  t.ok(asked - asking <= 1, `an unknown kid fetches the keys at most once a minute: ${asked - asking}`)

  answer = () => ({ status: 200, body: JSON.stringify({ keys }) })
  t.equal((await me(await start(), await token({}, 'ec', { typ: 'JWT' }))).status, 200, 'ES256 and any typ')

  provider.closeAllConnections()
  await new Promise((resolve) => provider.close(resolve))
  const away = await me(await start(), await token())
  t.equal(away.status, 503, away.text)
  t.match(away.headers.get('retry-after'), /^\d+$/)
  await bad.admin.patch(`/users/${body.data.id}`, { status: 'suspended' })
})
