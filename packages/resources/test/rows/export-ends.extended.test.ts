/** An export that stops early does not look complete: its connection ends before the end of the body, whatever the reason. */
import t, { type Test } from 'tap'
import { DatabaseUnavailable } from '../../../database/src/client/index.ts'
import { createClient, issueEndingToken, type Person, testApp } from '../../../testing/helpers/app.ts'
import { createSharedDatabase, type Owner } from '../../../testing/helpers/database.ts'
import {
  createOrganization,
  createOrganizations,
  removeMember,
} from '../../../testing/helpers/organizations.ts'
import { waitUntil } from '../../../testing/helpers/time.ts'
import {
  controlReads,
  holdStatement,
  insertProducts,
  LAST_CHUNK,
  openExport,
  type RawExport,
  untilReceived,
  untilStalled,
} from './raw-export.ts'
import { CSV, NDJSON } from './read-export.ts'

/** How a connection ends before the end of a body, with each version. */
const ENDS = { '1.1': 'end', '1.0': 'reset' } as const
const VERSIONS = ['1.1', '1.0'] as const

const opened = await createSharedDatabase(t)
await insertProducts(opened, 4_000, 5_000)

async function startApp(owner: Owner, settings: Record<string, string> = {}) {
  const { database, state } = controlReads(opened)
  return { ...(await testApp(owner, settings, { database })), state }
}

const shared = await startApp(t)
const { admin, app, person } = shared

const withKey = ({ key }: Person) => `X-API-Key: ${key}`
const withToken = ({ token }: Pick<Person, 'token'>) => `Authorization: Bearer ${token}`
const patch = (change: object) => (caller: Person) => admin.patch(`/users/${caller.id}`, change)
const getKeyPath = async ({ bearer }: Person) =>
  `/api-keys/${(await bearer.get('/api-keys')).body.data[0].id}`

/** What ends the rights of a caller, with a credential that it ends. */
const LOSSES: Readonly<
  Record<string, [credential: typeof withKey, lose: (caller: Person) => Promise<unknown>]>
> = {
  'its API key is revoked': [withKey, async (caller) => caller.bearer.delete(await getKeyPath(caller))],
  'its API key has other scopes': [
    withKey,
    async (caller) => caller.bearer.patch(await getKeyPath(caller), { scopes: ['users:read'] }),
  ],
  'its session ends': [withToken, ({ bearer, sessionId }) => bearer.delete(`/sessions/${sessionId}`)],
  'its user is suspended': [withToken, patch({ status: 'suspended' })],
  'its user has another role': [withKey, patch({ role: 'member' })],
  'its user is deleted': [withKey, ({ id }) => admin.delete(`/users/${id}`)],
}

/** Checks that a response has begun and is not complete. */
async function checkBrokenOff(t: Test, sent: RawExport, version: keyof typeof ENDS, name = '') {
  t.equal(await sent.untilEnd, ENDS[version], `HTTP/${version} ${name}`)
  t.match(sent.read(), /^HTTP\/1\.1 200/)
  t.notOk(sent.read().endsWith(LAST_CHUNK))
}

t.test('an export is broken off when the rights of its caller end', async (t) => {
  for (const [index, [name, [credential, lose]]] of Object.entries(LOSSES).entries()) {
    const version = VERSIONS[index % 2] ?? '1.1'
    const caller = await person('manager')
    const { sent, goOn } = await holdStatement(t, shared, 3, { credential: credential(caller), version })
    await lose(caller)
    await untilReceived(sent)
    goOn()
    await checkBrokenOff(t, sent, version, name)
    await waitUntil(() => app.exports.size === 0)
  }
})

t.test('an export is broken off when its user is suspended while its client does not read', async (t) => {
  const caller = await person('manager')
  const sent = openExport(t, shared, { credential: withKey(caller), isPaused: true })
  await untilStalled(shared)
  t.equal((await admin.patch(`/users/${caller.id}`, { status: 'suspended' })).status, 200)
  sent.socket.resume()
  await checkBrokenOff(t, sent, '1.1')
})

t.test('an export goes on when its access token expires, and not when the database goes away', async (t) => {
  const test = await startApp(t, { COMPRESS: 'true', ACCESS_TOKEN_TTL: '3' })
  const token = issueEndingToken(test, await test.person('manager'), 'manager')
  const some = { credential: withToken({ token }), path: '/products?price_amount_max=0' }
  const held = await holdStatement(t, test, 3, some)
  const caller = createClient(test.base, { authorization: `Bearer ${token}` })
  await waitUntil(async () => (await caller.get('/users/me')).status === 401)
  test.app.credentials.tokens.clearCache()
  held.goOn()
  t.equal(await held.sent.untilEnd, 'complete')
  for (const [version, accept] of [
    ['1.1', NDJSON],
    ['1.1', `${CSV}\r\nAccept-Encoding: gzip`],
    ['1.0', NDJSON],
  ] as const) {
    await waitUntil(() => test.app.exports.size === 0)
    const { sent, goOn } = await holdStatement(t, test, 3, { version, accept })
    await untilReceived(sent)
    goOn(new DatabaseUnavailable('The database is away'))
    await checkBrokenOff(t, sent, version)
  }
})

t.test('an export is broken off after EXPORT_SECONDS', async (t) => {
  const test = await startApp(t, { EXPORT_SECONDS: '2' })
  for (const version of VERSIONS) {
    const { sent, goOn } = await holdStatement(t, test, 3, { version })
    await checkBrokenOff(t, sent, version)
    goOn()
    await waitUntil(() => test.app.exports.size === 0)
  }
})

const COUNT = 400

t.test('an export is broken off when a membership ends that permits rows, or events', async (t) => {
  const { database: tables, resources } = await createOrganizations(t)
  const projects = controlReads(tables, 'path_projects')
  const events = controlReads(projects.database, 'events')
  const test = await testApp(t, {}, { database: events.database, resources })
  const [owner, member] = [await test.person('member'), await test.person('member')]
  const [first, second] = [
    await createOrganization(owner, [member]),
    await createOrganization(owner, [member]),
  ]
  await tables.run(
    `insert into path_projects (id, organization_id, code, name, status)
     select gen_random_uuid(), $1, 'P-' || n, 'Apollo', 'open' from generate_series(1, $2::integer) as n`,
    [first, COUNT],
  )
  const options = { credential: withKey(member), path: '/projects' }
  const joined = await holdStatement(t, { ...test, ...projects }, 2, options)
  const third = await createOrganization(owner, [member])
  joined.goOn()
  t.equal(await joined.sent.untilEnd, 'complete', 'a further membership ends no export')
  t.equal(joined.sent.read().split('"code"').length - 1, COUNT)
  await tables.run(
    `insert into outbox (type, resource_id, revision, columns, bytes, credential, owner_id)
     select 'projects.created', id, 1, to_jsonb(p), 2, 'system', organization_id from path_projects as p`,
  )
  await test.app.events.assignAll()
  for (const [version, organization, path, { state }] of [
    ['1.1', third, '/projects', projects],
    ['1.1', second, '/projects', projects],
    ['1.0', first, '/projects', projects],
    ['1.1', first, '/events', events],
  ] as const) {
    await waitUntil(() => test.app.exports.size === 0)
    if (path === '/events') {
      const again = { organization_id: first, user_id: member.id }
      t.equal((await owner.client.post('/memberships', again)).status, 201)
    }
    const { sent, goOn } = await holdStatement(t, { ...test, state }, 2, { ...options, path, version })
    await removeMember(owner.client, organization, member.id)
    await untilReceived(sent)
    goOn()
    await checkBrokenOff(t, sent, version, path)
  }
})

t.test('an export is broken off at the end of the grace of a shutdown', async (t) => {
  const { sent, goOn } = await holdStatement(t, shared, 3)
  await untilReceived(sent)
  const draining = app.drain()
  for (const end of app.onGraceEnd) end()
  await checkBrokenOff(t, sent, '1.1')
  goOn()
  await draining
})
