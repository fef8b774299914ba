/** An export that stops early does not look complete: its connection ends before the end of the body, whatever the reason. */
import t, { type Test } from 'tap'
import { DatabaseUnavailable } from '../../drizzle/client/index.ts'
import { type Person, testApp } from '../helpers/app.ts'
import { type Owner, testDatabase } from '../helpers/database.ts'
import {
  createOrganization,
  createOrganizations,
  createProject,
  removeMember,
} from '../helpers/organizations.ts'
import { waitUntil } from '../helpers/time.ts'
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

async function startApp(owner: Owner, settings: Record<string, string> = {}, count = 4_000) {
  const opened = await testDatabase(owner)
  await insertProducts(opened, count, 5_000)
  const { database, state } = controlReads(opened)
  return { ...(await testApp(owner, settings, { database })), state }
}

const shared = await startApp(t)
const { admin, app, person } = shared

const withKey = ({ key }: Person) => `X-API-Key: ${key}`
const withToken = ({ token }: Person) => `Authorization: Bearer ${token}`

/** What ends the rights of a caller: each with a credential that it ends. */
const losses: Record<
  string,
  { credential: (caller: Person) => string; lose: (caller: Person) => Promise<unknown> }
> = {
  'its API key is revoked': {
    credential: withKey,
    async lose({ bearer }) {
      const { body } = await bearer.get('/api-keys')
      await bearer.delete(`/api-keys/${body.data[0].id}`)
    },
  },
  'its API key has other scopes': {
    credential: withKey,
    async lose({ bearer }) {
      const { body } = await bearer.get('/api-keys')
      await bearer.patch(`/api-keys/${body.data[0].id}`, { scopes: ['users:read'] })
    },
  },
  'its session ends': {
    credential: withToken,
    lose: ({ bearer, sessionId }) => bearer.delete(`/sessions/${sessionId}`),
  },
  'its user is suspended': {
    credential: withToken,
    lose: ({ id }) => admin.patch(`/users/${id}`, { status: 'suspended' }),
  },
  'its user has another role': {
    credential: withKey,
    lose: ({ id }) => admin.patch(`/users/${id}`, { role: 'member' }),
  },
  'its user is deleted': {
    credential: withKey,
    lose: ({ id }) => admin.delete(`/users/${id}`),
  },
}

/** Checks that a response has begun and is not complete. */
async function checkBrokenOff(t: Test, sent: RawExport, version: keyof typeof ENDS) {
  t.equal(await sent.untilEnd, ENDS[version], `HTTP/${version}`)
  t.match(sent.read(), /^HTTP\/1\.1 200/)
  t.notOk(sent.read().endsWith(LAST_CHUNK))
}

for (const [name, { credential, lose }] of Object.entries(losses)) {
  t.test(`an export is broken off when ${name}`, async (t) => {
    for (const version of VERSIONS) {
      const caller = await person('manager')
      const options = { credential: credential(caller), version }
      const { sent, goOn } = await holdStatement(t, shared, 3, options)
      await lose(caller)
      await untilReceived(sent)
      goOn()
      await checkBrokenOff(t, sent, version)
      await waitUntil(() => app.exports.size === 0)
    }
  })
}

t.test('an export is broken off when its user is suspended while its client does not read', async (t) => {
  const caller = await person('manager')
  const sent = openExport(t, shared, { credential: withKey(caller), isPaused: true })
  await untilStalled(shared)
  t.equal((await admin.patch(`/users/${caller.id}`, { status: 'suspended' })).status, 200)
  sent.socket.resume()
  await checkBrokenOff(t, sent, '1.1')
})

t.test('an export goes on when only its access token expires', async (t) => {
  const test = await startApp(t, { ACCESS_TOKEN_TTL: '3' }, 500)
  const caller = await test.person('manager')
  const { sent, goOn } = await holdStatement(t, test, 3, { credential: withToken(caller) })
  await waitUntil(async () => (await caller.bearer.get('/users/me')).status === 401)
  test.app.credentials.tokens.clearCache()
  goOn()
  t.equal(await sent.untilEnd, 'complete')
})

t.test('an export is broken off when the database goes away', async (t) => {
  const compressing = await startApp(t, { COMPRESS: 'true' }, 500)
  for (const [version, accept] of [
    ['1.1', NDJSON],
    ['1.1', `${CSV}\r\nAccept-Encoding: gzip`],
    ['1.0', NDJSON],
  ] as const) {
    const { sent, goOn } = await holdStatement(t, compressing, 3, { version, accept })
    await untilReceived(sent)
    goOn(new DatabaseUnavailable('The database is away'))
    await checkBrokenOff(t, sent, version)
    await waitUntil(() => compressing.app.exports.size === 0)
  }
})

t.test('an export is broken off after EXPORT_SECONDS', async (t) => {
  const test = await startApp(t, { EXPORT_SECONDS: '2' }, 500)
  for (const version of VERSIONS) {
    const { sent, goOn } = await holdStatement(t, test, 3, { version })
    await checkBrokenOff(t, sent, version)
    goOn()
    await waitUntil(() => test.app.exports.size === 0)
  }
})

t.test('exports are broken off at the end of the grace of a shutdown', async (t) => {
  for (const version of VERSIONS) {
    const test = await startApp(t, {}, 500)
    const { sent, goOn } = await holdStatement(t, test, 3, { version })
    await untilReceived(sent)
    const draining = test.app.drain()
    for (const end of test.app.onGraceEnd) end()
    await checkBrokenOff(t, sent, version)
    goOn()
    await draining
  }
})

const COUNT = 400

/** Starts an app with a member of two organizations, and projects of the first one. */
async function startOrganizations(t: Test, table: string) {
  const { database: opened, resources } = await createOrganizations(t)
  const { database, state } = controlReads(opened, table)
  const test = await testApp(t, {}, { database, resources })
  const [owner, member] = [await test.person('member'), await test.person('member')]
  const [first, second] = [
    await createOrganization(owner, [member]),
    await createOrganization(owner, [member]),
  ]
  return { ...test, state, owner, member, first, second }
}

t.test('an export is broken off when a membership ends that permits rows', async (t) => {
  const test = await startOrganizations(t, 'path_projects')
  const { owner, member, first, second } = test
  await test.database.run(
    `insert into path_projects (id, organization_id, code, name, status)
     select gen_random_uuid(), $1, 'P-' || n, 'Apollo', 'open' from generate_series(1, $2::integer) as n`,
    [first, COUNT],
  )
  const options = { credential: withKey(member), path: '/projects' }
  const joined = await holdStatement(t, test, 2, options)
  const third = await createOrganization(owner, [member])
  joined.goOn()
  t.equal(await joined.sent.untilEnd, 'complete', 'a further membership ends no export')
  t.equal(joined.sent.read().split('"code"').length - 1, COUNT)
  for (const [version, organization] of [
    ['1.1', third],
    ['1.1', second],
    ['1.0', first],
  ] as const) {
    await waitUntil(() => test.app.exports.size === 0)
    const { sent, goOn } = await holdStatement(t, test, 2, { ...options, version })
    await removeMember(owner.client, organization, member.id)
    await untilReceived(sent)
    goOn()
    await checkBrokenOff(t, sent, version)
  }
})

t.test('an export of events is broken off when a membership ends that permits some', async (t) => {
  const test = await startOrganizations(t, 'events')
  const { owner, member, first } = test
  for (let i = 0; i < 150; i++) await createProject(owner.client, first)
  await test.app.events.assignAll()
  const { sent, goOn } = await holdStatement(t, test, 2, { credential: withKey(member), path: '/events' })
  await removeMember(owner.client, first, member.id)
  await untilReceived(sent)
  goOn()
  await checkBrokenOff(t, sent, '1.1')
})
