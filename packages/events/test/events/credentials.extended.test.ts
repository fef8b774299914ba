/** Who made a change: sign-ins, sessions that end, API keys, refresh tokens, and commands. What is no change has no event. */
import t from 'tap'
import { getKeyPrefix } from '../../../accounts/src/auth/key-format.ts'
import { pruneSignIns } from '../../../accounts/src/auth/sign-in-addresses.ts'
import { createClient, testApp } from '../../../testing/helpers/app.ts'
import { runCommand, withDatabaseAt } from '../../../testing/helpers/command.ts'
import { testDatabaseUrl } from '../../../testing/helpers/database.ts'
import { countTypes, readChanges } from '../../../testing/helpers/events.ts'

const PASSWORD = 'correct horse battery'
const NEW_PASSWORD = 'another horse battery'
const SECRETS = /password_hash|key_hash|refresh_hash|argon2/

const { admin, adminId, anybody, app, base, database, person } = await testApp(t)

let count = 0
/** Creates a user who signs in with a password. */
async function createAccount() {
  count += 1
  const account = { email: `ada.${count}@example.com`, password: PASSWORD }
  const { id } = (await admin.post('/users', { name: 'Ada', ...account })).body.data
  const signIn = async (headers: Record<string, string> = {}) => {
    const { body } = await anybody.post('/tokens', { grant_type: 'password', ...account }, headers)
    const { session_id, refresh_token, access_token } = body.data
    return {
      session_id,
      refresh: () => anybody.post('/tokens', { grant_type: 'refresh_token', refresh_token }),
      bearer: createClient(base, { authorization: `Bearer ${access_token}` }),
    }
  }
  return { id: String(id), signIn }
}

const BY_SIGN_IN = { credential: 'none', credential_id: null }

t.test('a sign-in is a sessions.created by the user, without a credential, with the request', async (t) => {
  const ada = await createAccount()
  const { session_id } = await ada.signIn({ 'x-request-id': 'sign-in-1' })
  const event = { type: 'sessions.created', actor_id: ada.id, ...BY_SIGN_IN, request_id: 'sign-in-1' }
  t.match(await readChanges(database, session_id), [{ ...event, owner_id: ada.id }])
  await app.events.assignAll()
  t.match((await admin.get(`/events?resource_id=${session_id}`)).body.data, [event])
})

t.test('each session that ends is a sessions.deleted of the request that ends it', async (t) => {
  const ada = await createAccount()
  const [oldest, used] = [await ada.signIn(), await ada.signIn()]
  const [signedOut, current] = [await ada.signIn(), await ada.signIn()]
  const byToken = { actor_id: ada.id, credential: 'token', credential_id: current.session_id }
  const check = async ({ session_id }: typeof current, origin: object) => {
    const ended = { type: 'sessions.deleted', owner_id: ada.id, previous: null, ...origin }
    t.match((await readChanges(database, session_id)).slice(1), [ended])
  }
  await current.bearer.delete(`/sessions/${signedOut.session_id}`)
  await check(signedOut, { ...byToken, revision: 2 })

  t.equal((await used.refresh()).status, 201)
  const set = (value: string, { session_id }: typeof used) =>
    database.run(`update sessions set ${value} where id = $1`, [session_id])
  await set(`rotations = array[now() - interval '1 hour']`, used)
  t.equal((await used.refresh()).status, 401)
  await check(used, { ...BY_SIGN_IN, actor_id: null })

  await set(`last_used_at = now() - interval '1 hour'`, oldest)
  await database.run(
    `insert into sessions (id, user_id, refresh_hash, expires_at, ends_at)
     select gen_random_uuid(), $1, 'x', now() + interval '1 day', now() + interval '1 day' from generate_series(1, 98)`,
    [ada.id],
  )
  const last = await ada.signIn()
  await check(oldest, { ...BY_SIGN_IN, actor_id: ada.id })
  await database.run(`delete from sessions where refresh_hash = 'x'`)

  await current.bearer.post('/api-keys', { name: 'Export', scopes: ['*'] })
  const before = (await readChanges(database)).length
  const body = { password: NEW_PASSWORD, current_password: PASSWORD, revoke_api_keys: true }
  t.equal((await current.bearer.patch(`/users/${ada.id}`, body)).status, 200)
  const events = (await readChanges(database)).slice(before)
  t.equal(countTypes(events), 'api-keys.deleted, sessions.deleted, users.updated')
  t.strictSame(events.find(({ type }) => type === 'users.updated')?.previous, {}, 'no password')
  await check(last, byToken)
  await admin.patch(`/users/${ada.id}`, { status: 'suspended' })
  await check(current, { actor_id: adminId, credential: 'bootstrap_key' })
  t.match((await readChanges(database, ada.id)).at(-1), { previous: { status: 'active' } })
  t.notMatch(JSON.stringify(await readChanges(database)), SECRETS)
})

t.test('a refresh, an expiry, and the use of a credential are no events', async (t) => {
  const ada = await createAccount()
  const { session_id, refresh, bearer } = await ada.signIn()
  const expires_at = new Date(Date.now() + 3_600_000).toISOString()
  const created = await bearer.post('/api-keys', { name: 'Export', scopes: ['*'], expires_at })
  const { id: keyId, key } = created.body.data
  const before = (await readChanges(database)).length
  t.equal((await refresh()).status, 201)
  const set = async (column: string, time: string) => {
    for (const table of ['sessions', 'api_keys'])
      await database.run(`update ${table} set ${column} = ${time} where user_id = $1`, [ada.id])
  }
  await set('last_used_at', `now() - interval '1 day'`)
  app.credentials.keys.clearCache()
  app.credentials.tokens.clearCache()
  for (const client of [bearer, createClient(base, { 'x-api-key': key })])
    t.equal((await client.get('/products')).status, 200)
  const used = await database.run(
    `select last_used_at > now() - interval '1 minute' as used from sessions where id = $1
     union all select last_used_at > now() - interval '1 minute' from api_keys where id = $2`,
    [session_id, keyId],
  )
  t.strictSame(used, [{ used: true }, { used: true }])
  await set('expires_at', `now() - interval '1 second'`)
  await ada.signIn()
  await pruneSignIns(database, () => true)
  t.equal((await database.run('select 1 from sessions where id = $1', [session_id])).length, 0)
  t.equal(countTypes((await readChanges(database)).slice(before)), 'sessions.created')
})

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
    { actor_id: adminId, credential: 'bootstrap_key', credential_id: null },
  ])
})

t.test('changes by the command line are events of the system', async (t) => {
  const { url, dataDir } = await testDatabaseUrl(t)
  const settings = { ...(url && { DATABASE_URL: url }), ...(dataDir && { DATA_DIR: dataDir }) }
  const run = async (command: string, input = '', others = {}) => {
    const result = await runCommand(t, command.split(' '), { ...settings, ...others }, input)
    if (result.code !== 0) throw new Error(result.err)
    return result.out.trim()
  }
  const read = () => withDatabaseAt(settings, (opened) => readChanges(opened))
  const email = 'root@example.com'
  await run(`users create --email ${email} --role admin`, `${PASSWORD}\n`)
  await run('users create --email other@example.com --role admin', `${PASSWORD}\n`)
  const first = await run(`api-keys create --email ${email} --name Export`)
  // The second one is no change.
  for (const _ of [1, 2]) await run(`users set-role ${email} --role manager`)
  await run(`users set-status ${email} --status suspended`)
  await run(`users set-password ${email} --revoke-api-keys`, `${NEW_PASSWORD}\n`)
  const second = await run('api-keys create --email other@example.com --name Export')
  await run(`api-keys revoke --prefix ${getKeyPrefix(second)}`)

  const events = await read()
  t.equal(countTypes(events), 'api-keys.created x2, api-keys.deleted x2, users.created x2, users.updated x3')
  for (const event of events)
    t.match(event, { actor_id: null, credential: 'system', credential_id: null, request_id: null })
  const updates = events.filter(({ type }) => type === 'users.updated').map(({ previous }) => previous)
  t.strictSame(updates, [{ role: 'admin' }, { status: 'active' }, {}])
  const text = JSON.stringify(events)
  t.notMatch(text, SECRETS)
  for (const key of [first, second]) t.notOk(text.includes(key))
  await run(`users set-status ${email} --status active`, '', { EVENTS: 'false' })
  t.equal((await read()).length, events.length, 'with EVENTS=false, commands write none')
})
