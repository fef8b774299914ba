/** A session that another process has ended creates, changes and removes no credential, even while its token is cached. */
import t from 'tap'
import { testApp } from '../../../testing/helpers/app.ts'
import { createSharedDatabase } from '../../../testing/helpers/database.ts'
import { waitUntil } from '../../../testing/helpers/time.ts'

const database = await createSharedDatabase(t)
/** Two processes, each with its own cache of credentials. */
const [here, elsewhere] = [await testApp(t, {}, { database }), await testApp(t, {}, { database })]

const newKey = { name: 'Export', scopes: ['products:read'] }
const newEndpoint = { url: 'https://example.com/hooks', event_types: ['*'] }

/** Signs a manager in, and creates a key, an endpoint and another session of theirs. */
async function createOwner() {
  const owner = await here.person('manager')
  const [key, endpoint] = [
    await owner.bearer.post('/api-keys', newKey),
    await owner.bearer.post('/webhook-endpoints', newEndpoint),
  ].map(({ body }) => String(body.data.id))
  const { sessionId } = await here.app.sessions.create(
    { id: owner.id, role: 'manager' },
    { ip: '127.0.0.1', userAgent: 'test' },
  )
  return { ...owner, key, endpoint, otherSession: sessionId }
}

type Owner = Awaited<ReturnType<typeof createOwner>>

/** Returns the revisions of the credentials of a user: any write changes them. */
const readRevisions = async ({ id }: Owner) =>
  (
    await Promise.all(
      ['api_keys', 'sessions', 'webhook_endpoints'].map((table) =>
        database.run(`select id, revision from ${table} where user_id = $1 order by id`, [id]),
      ),
    )
  ).flat()

/** All writes of credentials. */
const WRITES: [method: string, getPath: (owner: Owner) => string, getBody?: () => unknown][] = [
  ['POST', () => '/api-keys', () => newKey],
  ['POST', () => '/api-keys', () => newKey],
  ['PATCH', ({ key }) => `/api-keys/${key}`, () => ({ scopes: ['*'], name: 'Other' })],
  ['DELETE', ({ key }) => `/api-keys/${key}`],
  ['POST', () => '/webhook-endpoints', () => newEndpoint],
  ['PATCH', ({ endpoint }) => `/webhook-endpoints/${endpoint}`, () => ({ url: 'https://example.com/other' })],
  ['PUT', ({ endpoint }) => `/webhook-endpoints/${endpoint}`, () => newEndpoint],
  ['DELETE', ({ endpoint }) => `/webhook-endpoints/${endpoint}`],
  ['POST', ({ endpoint }) => `/webhook-endpoints/${endpoint}/secrets`],
  ['POST', ({ endpoint }) => `/webhook-endpoints/${endpoint}/deliveries`, () => ({ test: true })],
  ['DELETE', ({ otherSession }) => `/sessions/${otherSession}`],
]

const END_SESSION = 'delete from sessions where user_id = $1'
const SUSPEND = `update users set status = 'suspended' where id = $1`

t.test('a session or user that another process has ended writes no credential', async (t) => {
  for (const [i, [method, getPath, getBody]] of WRITES.entries())
    for (const headers of [{}, { 'idempotency-key': 'write' }]) {
      const owner = await createOwner()
      const path = getPath(owner)
      if (i === 0) await database.run(SUSPEND, [owner.id])
      else t.equal((await elsewhere.admin.delete(`/sessions/${owner.sessionId}`)).status, 204)
      t.equal((await owner.bearer.get('/products')).status, 200, 'the token is cached')
      const before = await readRevisions(owner)
      const reply = await owner.bearer.call(method, path, { headers, body: getBody?.() })
      t.equal(reply.status, 401, `${method} ${path} ${reply.text}`)
      t.match(reply.headers.get('www-authenticate'), /invalid_token/)
      t.strictSame(await readRevisions(owner), before)
    }
})

t.test(
  'a write waits for a revocation that has begun, and is then refused',
  { skip: database.kind === 'embedded' && 'transactions of PGlite run one after the other' },
  async (t) => {
    for (const revoke of [END_SESSION, SUSPEND]) {
      const owner = await createOwner()
      const path = `/api-keys/${owner.key}`
      t.equal((await owner.bearer.get(path)).status, 200, 'the token is cached')
      const pending = await database.transaction(async (tx) => {
        await tx.run(revoke, [owner.id])
        const [backend] = await tx.run('select pg_backend_pid() as pid')
        const reply = owner.bearer.patch(path, { scopes: ['*'] })
        await waitUntil(async () => {
          const blocked = 'select 1 from pg_stat_activity where $1 = any(pg_blocking_pids(pid))'
          return (await tx.run(blocked, [Number(backend?.pid)])).length > 0
        })
        return { reply }
      })
      t.equal((await pending.reply).status, 401, revoke)
    }
  },
)
