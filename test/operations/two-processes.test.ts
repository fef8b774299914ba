/** Two processes on one database: a change in one takes effect in the other within the documented time. */
import { setTimeout } from 'node:timers/promises'
import t from 'tap'
import { ADMIN_KEY, type Client, createClient, type Json } from '../helpers/app.ts'
import { openDatabase, SERVER } from '../helpers/database.ts'
import { createServerSettings, startModule, startServer } from '../helpers/process.ts'
import { createKeyHeader, isReplayed, pickReplayedParts } from '../helpers/replies.ts'

const PASSWORD = 'correct horse battery'
/** Makes the uses of a session's refresh tokens as old as the grace and a second more. */
const AGE = `update sessions set rotations = array(select unnest(rotations) - interval '11 seconds') where id = $1`
/** Milliseconds; what the contract allows until a change is in force everywhere. */
const IN_FORCE = 5_000

const skip = SERVER ? false : 'a folder of the embedded database has one process: set DATABASE_URL'

const bearer = (base: string, token: string) => createClient(base, { authorization: `Bearer ${token}` })
const withKey = (base: string, key: string) => createClient(base, { 'x-api-key': key })
const refresh = (base: string, token: string) =>
  createClient(base, {}).post('/tokens', { grant_type: 'refresh_token', refresh_token: token })
const kids = async (base: string) =>
  (await createClient(base, {}).get('/.well-known/jwks.json')).body.keys.map(({ kid }: Json) => kid)

/** What two replicas must agree on. */
interface Case {
  name: string
  /** Returns the status of a request that shows whether the server has seen the change. */
  ask(base: string): Promise<number>
  /** 200 by default. */
  before?: number
  /** 401 by default. */
  after?: number
  change(): Promise<number>
  /** The server that makes the change; by default A. The other one must agree in time. */
  changedBy?: string
}

t.test('two processes on one database', { skip, jobs: 2 }, async (t) => {
  const settings: NodeJS.ProcessEnv = {
    ...(await createServerSettings(t)),
    ADMIN_API_KEY: ADMIN_KEY,
    LOG_LEVEL: 'warn',
  }
  const database = await openDatabase({ url: settings.DATABASE_URL })
  t.teardown(() => database.close())
  const [{ url: a }, { url: b }] = await Promise.all([startServer(t, settings), startServer(t, settings)])
  const admin = withKey(a, ADMIN_KEY)

  let count = 0
  const signIn = (base: string, email: string) =>
    createClient(base, {}).post('/tokens', { grant_type: 'password', email, password: PASSWORD })

  /** A user who signed in at A. */
  async function person(role = 'member') {
    const email = `ada${count++}@example.com`
    const made = await admin.post('/users', { name: 'Ada', email, password: PASSWORD, role })
    if (made.status !== 201) throw new Error(`POST /users is ${made.status}: ${made.text}`)
    const { data } = (await signIn(a, email)).body
    return { id: made.body.data.id, email, token: data.access_token, data, at: bearer(a, data.access_token) }
  }

  async function key(at: Client, scopes: readonly string[] = ['*']): Promise<{ id: string; key: string }> {
    return (await at.post('/api-keys', { name: 'k', scopes })).body.data
  }

  t.test('both processes derive the same signing key from APP_SECRET', async (t) => {
    const ada = await person()
    t.same(await kids(a), await kids(b))
    t.equal((await bearer(b, ada.token).get('/users/me')).body.data.id, ada.id)
    const atB = (await signIn(b, ada.email)).body.data.access_token
    t.equal((await bearer(a, atB).get('/users/me')).body.data.id, ada.id, 'and the other way round')
  })

  t.test('a retry that is sent to the other process gets the stored reply', async (t) => {
    const header = createKeyHeader()
    const product = { sku: `RETRY-${count++}`, name: 'Tea', price_amount: 5 }
    const first = await admin.post('/products', product, header)
    t.equal(first.status, 201)
    const retry = await withKey(b, ADMIN_KEY).post('/products', product, header)
    t.ok(isReplayed(retry))
    t.same(pickReplayedParts(retry), pickReplayedParts(first))
  })

  t.test('20 concurrent refreshes of one token in both processes give one successor', async (t) => {
    const { data } = await person()
    const all = await Promise.all(
      Array.from({ length: 20 }, (_, i) => refresh(i % 2 ? a : b, data.refresh_token)),
    )
    t.same([...new Set(all.map(({ status }) => status))], [201])
    const successors = new Set(all.map(({ body }) => body.data.refresh_token))
    t.equal(successors.size, 1)
    const [next = ''] = successors
    t.not(next, data.refresh_token)
    t.equal((await refresh(b, next)).status, 201, 'which is good')
    for (const [i, { body }] of all.entries()) {
      t.equal((await bearer(i % 2 ? b : a, body.data.access_token).get('/users/me')).status, 200)
    }
  })

  // This one and the next wait through the same seconds.
  t.test(
    'a revocation takes effect immediately in one process and within 5 s in the other',
    { buffered: true },
    async (t) => {
      const [leaving, suspended, suspendedKey, promoted, demoted, keyless, narrowed, atB] = await Promise.all(
        [person(), person(), person(), person(), person('manager'), person(), person(), person()],
      )
      const [ofSuspended, revoked, revokedByB, wide] = await Promise.all([
        key(suspendedKey.at),
        key(keyless.at),
        key(keyless.at),
        key(narrowed.at),
      ])
      const status = async (reply: Promise<{ status: number }>) => (await reply).status
      const me = (token: string) => (base: string) => status(bearer(base, token).get('/users/me'))
      const users = (token: string) => (base: string) => status(bearer(base, token).get('/users'))
      const products = (text: string) => (base: string) => status(withKey(base, text).get('/products'))
      const set = (id: string, change: object) => () => status(admin.patch(`/users/${id}`, change))

      const cases: Case[] = [
        {
          name: 'a session that was ended',
          ask: me(leaving.token),
          change: () => status(leaving.at.delete(`/sessions/${leaving.data.session_id}`)),
        },
        {
          name: 'a suspended user, by token',
          ask: me(suspended.token),
          change: set(suspended.id, { status: 'suspended' }),
        },
        {
          name: 'a suspended user, by key',
          ask: products(ofSuspended.key),
          change: set(suspendedKey.id, { status: 'suspended' }),
        },
        {
          name: 'a member who became a manager',
          ask: users(promoted.token),
          before: 403,
          after: 200,
          change: set(promoted.id, { role: 'manager' }),
        },
        {
          name: 'a manager who became a member',
          ask: users(demoted.token),
          after: 403,
          change: set(demoted.id, { role: 'member' }),
        },
        {
          name: 'a key that was deleted',
          ask: products(revoked.key),
          change: () => status(keyless.at.delete(`/api-keys/${revoked.id}`)),
        },
        {
          name: 'a key that B deleted',
          ask: products(revokedByB.key),
          change: () => status(bearer(b, keyless.token).delete(`/api-keys/${revokedByB.id}`)),
          changedBy: b,
        },
        {
          name: 'a session that B ended',
          ask: me(atB.token),
          change: () => status(bearer(b, atB.token).delete(`/sessions/${atB.data.session_id}`)),
          changedBy: b,
        },
        {
          name: 'a key whose scopes were narrowed',
          ask: products(wide.key),
          after: 403,
          change: () => status(narrowed.at.patch(`/api-keys/${wide.id}`, { scopes: ['orders:read'] })),
        },
      ]

      // Both have each in their memory at its freshest.
      await Promise.all(
        cases.map(async ({ name, ask, before = 200 }) => {
          t.same([await ask(a), await ask(b)], [before, before], `${name}: good on both`)
        }),
      )
      await Promise.all(
        cases.map(async ({ name, ask, after = 401, change, changedBy = a }) => {
          const other = changedBy === a ? b : a
          const since = performance.now()
          t.match(await change(), /^20[04]$/, name)
          t.equal(await ask(changedBy), after, `${name}: immediately in the process of the change`)
          while ((await ask(other)) !== after) {
            if (performance.now() - since > 2 * IN_FORCE) break
            await setTimeout(100)
          }
          const took = performance.now() - since
          t.ok(took <= IN_FORCE, `${name}: in the other after ${Math.round(took)} ms`)
        }),
      )
    },
  )

  t.test(
    'a refresh token reused in the other process after the grace period ends the session in both',
    { buffered: true },
    async (t) => {
      const { data, token } = await person()
      const next = (await refresh(a, data.refresh_token)).body.data
      t.equal((await refresh(b, data.refresh_token)).body.data.refresh_token, next.refresh_token, 'grace')
      await database.run(AGE, [data.session_id])
      const tokens = [token, next.access_token]
      const ask = () =>
        Promise.all(
          [a, b].flatMap((base) =>
            tokens.map(async (text) => (await bearer(base, text).get('/users/me')).status),
          ),
        )
      t.same(await ask(), [200, 200, 200, 200], 'until now it is good, and both know it')
      const since = performance.now()
      t.equal((await refresh(b, data.refresh_token)).status, 401)
      t.same(
        [(await refresh(a, next.refresh_token)).status, (await refresh(b, next.refresh_token)).status],
        [401, 401],
        'the successor is rejected immediately',
      )
      let seen = await ask()
      while (seen.some((status) => status !== 401) && performance.now() - since < 2 * IN_FORCE) {
        await setTimeout(100)
        seen = await ask()
      }
      const took = performance.now() - since
      t.same(seen, [401, 401, 401, 401])
      t.ok(took <= IN_FORCE, `the access tokens after ${Math.round(took)} ms`)
    },
  )

  t.test('rotating signing keys process by process keeps every session', async (t) => {
    const ada = await person()
    const rotate = startModule(t, 'cli.ts', settings, ['signing-keys', 'rotate'])
    t.equal((await rotate.ended).code, 0, rotate.output.err)
    const [added, ...used] = JSON.parse(rotate.output.out)
    const old = await kids(a)
    // As in docs/authentication.md: first all processes verify with the new key, then they sign with it one by one.
    const [{ url: first }, { url: second }] = await Promise.all([
      startServer(t, { ...settings, JWT_PRIVATE_KEY: JSON.stringify([...used, added]) }),
      startServer(t, { ...settings, JWT_PRIVATE_KEY: JSON.stringify([added, ...used]) }),
    ])
    const kidOf = (token: string) =>
      JSON.parse(Buffer.from(token.split('.', 1)[0] ?? '', 'base64url').toString()).kid
    const byFirst = (await refresh(first, ada.data.refresh_token)).body.data
    const bySecond = (await refresh(second, byFirst.refresh_token)).body.data
    t.same([kidOf(ada.token), kidOf(byFirst.access_token)], [...old, ...old])
    t.not(kidOf(bySecond.access_token), old[0], 'the second signs with the new key')
    for (const [name, token] of Object.entries({
      before: ada.token,
      'by the first': byFirst.access_token,
      'by the second': bySecond.access_token,
    })) {
      for (const base of [first, second]) {
        t.equal((await bearer(base, token).get('/users/me')).body.data?.id, ada.id, `issued ${name}`)
      }
    }
    t.same((await kids(first)).sort(), (await kids(second)).sort(), 'both publish both')
  })
})
