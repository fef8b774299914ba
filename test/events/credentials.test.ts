/** Who made a change: sign-ins, sessions that end, API keys, refresh tokens, and commands. What is no change has no event. */
import t from 'tap'
import { getKeyPrefix } from '../../plugins/auth/key-format.ts'
import { pruneSignIns } from '../../plugins/auth/sign-in-addresses.ts'
import { createClient, testApp } from '../helpers/app.ts'
import { runCommand } from '../helpers/command.ts'
import { openDatabase, testDatabaseUrl } from '../helpers/database.ts'
import { countTypes, readChanges } from '../helpers/events.ts'

const PASSWORD = 'correct horse battery'

const api = await testApp(t)
const { admin, anybody, app, base, database, person } = api

let count = 0
/** Creates a user who signs in with a password. */
const createAccount = async () => {
  count += 1
  const email = `ada.${count}@example.com`
  const { id } = (await admin.post('/users', { name: 'Ada', email, password: PASSWORD })).body.data
  const signIn = async (headers: Record<string, string> = {}) => {
    const reply = await anybody.post(
      '/tokens',
      { grant_type: 'password', email, password: PASSWORD },
      headers,
    )
    if (reply.status !== 201) throw new Error(reply.text)
    return reply.body.data
  }
  return { id: String(id), email, signIn }
}
const refresh = (token: string) =>
  anybody.post('/tokens', { grant_type: 'refresh_token', refresh_token: token })

t.test('a sign-in is a sessions.created by the user, without a credential, with the request', async (t) => {
  const ada = await createAccount()
  const { session_id } = await ada.signIn({ 'x-request-id': 'sign-in-1' })
  t.match(await readChanges(database, session_id), [
    {
      type: 'sessions.created',
      actor_id: ada.id,
      owner_id: ada.id,
      credential: 'none',
      credential_id: null,
      request_id: 'sign-in-1',
    },
  ])
  await app.events.assignAll()
  const { data } = (await admin.get(`/events?type=sessions.created&resource_id=${session_id}`)).body
  t.match(data, [{ actor_id: ada.id, credential: 'none', credential_id: null, request_id: 'sign-in-1' }])
})

t.test('the session that ends to make room for another is a sessions.deleted of the sign-in', async (t) => {
  const ada = await createAccount()
  const { session_id: oldest } = await ada.signIn()
  await database.run(`update sessions set last_used_at = now() - interval '1 hour' where id = $1`, [oldest])
  await database.run(
    `insert into sessions (id, user_id, refresh_hash, expires_at, ends_at)
     select gen_random_uuid(), $1, 'x', now() + interval '1 day', now() + interval '1 day' from generate_series(1, 99)`,
    [ada.id],
  )
  await ada.signIn()
  t.match(await readChanges(database, oldest), [
    { type: 'sessions.created' },
    { type: 'sessions.deleted', revision: 2, actor_id: ada.id, credential: 'none', previous: null },
  ])
})

t.test('the session that a used refresh token ends is a sessions.deleted without an actor', async (t) => {
  const ada = await createAccount()
  const { session_id, refresh_token } = await ada.signIn()
  t.equal((await refresh(refresh_token)).status, 201)
  await database.run(`update sessions set rotations = array[now() - interval '1 hour'] where id = $1`, [
    session_id,
  ])
  t.equal((await refresh(refresh_token)).status, 401)
  t.match(await readChanges(database, session_id), [
    { type: 'sessions.created' },
    { type: 'sessions.deleted', owner_id: ada.id, actor_id: null, credential: 'none', credential_id: null },
  ])
})

t.test(
  'a refresh, the expiry of a session and of a key, and the use of a credential are no events',
  async (t) => {
    const ada = await createAccount()
    const { session_id, refresh_token, access_token } = await ada.signIn()
    const bearer = createClient(base, { authorization: `Bearer ${access_token}` })
    const expires_at = new Date(Date.now() + 3_600_000).toISOString()
    const created = await bearer.post('/api-keys', { name: 'Export', scopes: ['*'], expires_at })
    const { id: keyId, key } = created.body.data
    const before = (await readChanges(database)).length
    t.equal((await refresh(refresh_token)).status, 201)
    for (const table of ['sessions', 'api_keys'])
      await database.run(`update ${table} set last_used_at = now() - interval '1 day' where user_id = $1`, [
        ada.id,
      ])
    app.credentials.keys.clearCache()
    app.credentials.tokens.clearCache()
    t.equal((await bearer.get('/products')).status, 200)
    t.equal((await createClient(base, { 'x-api-key': key }).get('/products')).status, 200)
    const [used] = await database.run(
      `select (select last_used_at > now() - interval '1 minute' from sessions where id = $1) as session,
       (select last_used_at > now() - interval '1 minute' from api_keys where id = $2) as key`,
      [session_id, keyId],
    )
    t.strictSame(used, { session: true, key: true })
    for (const table of ['sessions', 'api_keys'])
      await database.run(`update ${table} set expires_at = now() - interval '1 second' where user_id = $1`, [
        ada.id,
      ])
    await ada.signIn()
    await pruneSignIns(database, () => true)
    t.equal((await database.run('select 1 from sessions where id = $1', [session_id])).length, 0)
    t.equal(countTypes((await readChanges(database)).slice(before)), 'sessions.created')
  },
)

t.test('a change with an API key names the key, and one with a token the session', async (t) => {
  const manager = await person('manager')
  const [key] = await database.run('select id from api_keys where user_id = $1', [manager.id])
  const product = { sku: 'KEY-1', name: 'Tea', price_amount: 5 }
  const { id } = (await manager.client.post('/products', product)).body.data
  await manager.bearer.patch(`/products/${id}`, { name: 'Green tea' })
  await admin.patch(`/products/${id}`, { name: 'Black tea' })
  t.match(await readChanges(database, id), [
    { actor_id: manager.id, credential: 'api_key', credential_id: key?.id },
    { actor_id: manager.id, credential: 'token', credential_id: manager.sessionId },
    { actor_id: api.adminId, credential: 'bootstrap_key', credential_id: null },
  ])
})

t.test('a new role and a new status are events, and so is each session that ends by them', async (t) => {
  const ada = await createAccount()
  const [first, second] = [await ada.signIn(), await ada.signIn()]
  await admin.patch(`/users/${ada.id}`, { role: 'manager' })
  await admin.patch(`/users/${ada.id}`, { status: 'suspended' })
  const events = await readChanges(database, ada.id)
  t.match(events.slice(1), [{ previous: { role: 'member' } }, { previous: { status: 'active' } }])
  for (const { session_id } of [first, second])
    t.match((await readChanges(database, session_id)).at(-1), {
      type: 'sessions.deleted',
      actor_id: api.adminId,
      credential: 'bootstrap_key',
    })
})

t.test('changes by the command line are events of the system', async (t) => {
  const { url, dataDir } = await testDatabaseUrl(t)
  const settings = { ...(url && { DATABASE_URL: url }), ...(dataDir && { DATA_DIR: dataDir }) }
  const run = async (args: readonly string[], input = '') => {
    const result = await runCommand(t, args, settings, input)
    if (result.code !== 0) throw new Error(result.err)
    return result.out
  }
  const email = 'root@example.com'
  await run(['users', 'create', '--email', email, '--role', 'admin'], `${PASSWORD}\n`)
  await run(['users', 'create', '--email', 'other@example.com', '--role', 'admin'], `${PASSWORD}\n`)
  const key = await run(['api-keys', 'create', '--email', email, '--name', 'Export'])
  await run(['users', 'set-role', email, '--role', 'manager'])
  await run(['users', 'set-role', email, '--role', 'manager'])
  await run(['users', 'set-status', email, '--status', 'suspended'])
  await run(['users', 'set-password', email, '--revoke-api-keys'], 'another horse battery\n')
  const second = await run(['api-keys', 'create', '--email', 'other@example.com', '--name', 'Export'])
  await run(['api-keys', 'revoke', '--prefix', getKeyPrefix(second)])

  const opened = await openDatabase({ url, dataDir })
  t.teardown(() => opened.close())
  const events = await readChanges(opened)
  t.equal(
    countTypes(events),
    'api-keys.created x2, api-keys.deleted x2, users.created x2, users.updated x3',
    'a role that the user has already is no change',
  )
  for (const event of events)
    t.match(event, { actor_id: null, credential: 'system', credential_id: null, request_id: null })
  t.strictSame(
    events.filter(({ type }) => type === 'users.updated').map(({ previous }) => previous),
    [{ role: 'admin' }, { status: 'active' }, {}],
  )
  const text = JSON.stringify(events)
  for (const secret of [key.trim(), second.trim(), 'argon2', 'password_hash', 'key_hash'])
    t.notOk(text.includes(secret), secret)

  const without = { ...settings, EVENTS: 'false' }
  await opened.close()
  await runCommand(t, ['users', 'set-status', email, '--status', 'active'], without)
  const again = await openDatabase({ url, dataDir })
  t.teardown(() => again.close())
  t.equal((await readChanges(again)).length, events.length, 'with EVENTS=false, commands write none')
})
