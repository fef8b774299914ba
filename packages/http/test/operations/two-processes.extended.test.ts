/** Two processes on one database: a change in one takes effect in the other within the documented time. */
import t from 'tap'
import { ADMIN_KEY, type Client, createClient, type Json, type Reply } from '../../../testing/helpers/app.ts'
import { SERVER } from '../../../testing/helpers/database.ts'
import { createServerSettings, startModule, startServer } from '../../../testing/helpers/process.ts'
import { createKeyHeader, isReplayed, pickReplayedParts } from '../../../testing/helpers/replies.ts'
import { measureAcceptance } from '../../../testing/helpers/time.ts'

const PASSWORD = 'correct horse battery'
/** What the contract allows until a change is in force everywhere. */
const IN_FORCE_MS = 5_000

const skip = SERVER ? false : 'a folder of the embedded database has one process: set DATABASE_URL'

const bearer = (base: string, token: string) => createClient(base, { authorization: `Bearer ${token}` })
const withKey = (base: string, key: string) => createClient(base, { 'x-api-key': key })
const refresh = (base: string, token: string) =>
  createClient(base, {}).post('/tokens', { grant_type: 'refresh_token', refresh_token: token })
const kids = async (base: string) =>
  (await createClient(base, {}).get('/.well-known/jwks.json')).body.keys.map(({ kid }: Json) => kid)

interface Case {
  /** Returns the status of a request that shows whether the server has seen the change. */
  ask(base: string): Promise<number>
  /** 200 by default. */
  before: number
  /** 401 by default. */
  after: number
  /** The server that makes the change, by default A. */
  changedBy: string
}

t.test('two processes on one database', { skip, jobs: 2 }, async (t) => {
  const settings: NodeJS.ProcessEnv = {
    ...(await createServerSettings(t)),
    ADMIN_API_KEY: ADMIN_KEY,
    LOG_LEVEL: 'warn',
  }
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

  t.test('a change takes effect immediately in one process and within 5 s in the other', async (t) => {
    const [leaving, suspended, promoted, demoted, narrowed, atB] = await Promise.all(
      ['member', 'member', 'member', 'manager', 'member', 'member'].map(person),
    )
    if (!leaving || !suspended || !promoted || !demoted || !narrowed || !atB) throw new Error('no users')
    const [ofSuspended, revoked, revokedByB, wide] = await Promise.all(
      [suspended, narrowed, narrowed, narrowed].map(({ at }) => key(at)),
    )
    if (!ofSuspended || !revoked || !revokedByB || !wide) throw new Error('no keys')
    const get = (connect: (base: string) => Client, path: string) => async (base: string) =>
      (await connect(base).get(path)).status
    const byToken = (token: string, path = '/users/me') => get((base) => bearer(base, token), path)
    const byKey = (text: string) => get((base) => withKey(base, text), '/products')

    const change = (user: { id: string }, body: object) => () => admin.patch(`/users/${user.id}`, body)
    const ofB = ({ token }: { token: string }) => bearer(b, token)
    const endSession = `/sessions/${leaving.data.session_id}`
    const [toManager, toMember] = [change(promoted, { role: 'manager' }), change(demoted, { role: 'member' })]
    const narrow = () => narrowed.at.patch(`/api-keys/${wide.id}`, { scopes: ['orders:read'] })
    const suspend = change(suspended, { status: 'suspended' })
    const cases: [name: string, ask: Case['ask'], change: () => Promise<Reply>, rest?: Partial<Case>][] = [
      ['an ended session', byToken(leaving.token), () => leaving.at.delete(endSession)],
      ['a suspended user', byKey(ofSuspended.key), suspend],
      ['a new manager', byToken(promoted.token, '/users'), toManager, { before: 403, after: 200 }],
      ['a former manager', byToken(demoted.token, '/users'), toMember, { after: 403 }],
      ['a deleted key', byKey(revoked.key), () => narrowed.at.delete(`/api-keys/${revoked.id}`)],
      [
        'a key that B deleted',
        byKey(revokedByB.key),
        () => ofB(narrowed).delete(`/api-keys/${revokedByB.id}`),
        { changedBy: b },
      ],
      [
        'a session that B ended',
        byToken(atB.token),
        () => ofB(atB).delete(`/sessions/${atB.data.session_id}`),
        { changedBy: b },
      ],
      ['a key with fewer scopes', byKey(wide.key), narrow, { after: 403 }],
    ]
    await Promise.all(
      cases.map(async ([name, ask, change, { before = 200, after = 401, changedBy = a } = {}]) => {
        t.same([await ask(a), await ask(b)], [before, before], `${name}: good on both`)
        t.match((await change()).status, /^20[04]$/, name)
        t.equal(await ask(changedBy), after, `${name}: immediately in the process of the change`)
        const other = changedBy === a ? b : a
        const isBefore = async () => (await ask(other)) !== after
        const took = await measureAcceptance(isBefore, 2 * IN_FORCE_MS, 100)
        t.ok(took <= IN_FORCE_MS, `${name}: in the other after ${Math.round(took)} ms`)
      }),
    )
  })

  t.test('rotating signing keys process by process keeps every session', async (t) => {
    const ada = await person()
    const rotate = startModule(t, 'cli.ts', settings, ['signing-keys', 'rotate'])
    t.equal((await rotate.ended).code, 0, rotate.output.err)
    const [added, ...used] = JSON.parse(rotate.output.out)
    const old = await kids(a)
    // As in docs/callers/authentication.md: first all processes verify with the new key, then they sign with it one by one.
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
