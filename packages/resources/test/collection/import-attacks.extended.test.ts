/** Attacks by imports: rights that have ended, locks on the rows of others, and bodies that cost much or arrive slowly. */
import { mkdirSync, readdirSync, readlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import t from 'tap'
import type { Database } from '../../../database/src/client/types.ts'
import { ADMIN_KEY, type Json, type Person, type Reply, testApp } from '../../../testing/helpers/app.ts'
import { createSharedDatabase, testFolder } from '../../../testing/helpers/database.ts'
import {
  createEmptyLines,
  createLongRows,
  createRowsOfCommas,
  NDJSON,
  openImport,
} from '../../../testing/helpers/imports.ts'
import {
  createOrganization,
  createOrganizations,
  removeMember,
} from '../../../testing/helpers/organizations.ts'
import { createKeyHeader, readWindow } from '../../../testing/helpers/replies.ts'
import { intercept } from '../../../testing/helpers/statements.ts'
import { createClock, createDeferred, waitUntil } from '../../../testing/helpers/time.ts'
import { createUniqueName } from '../../../testing/helpers/versioned-client.ts'
import { parseCsv } from '../../src/request/rows/csv.ts'

const shared = await createSharedDatabase(t)
/** Called before each statement. */
let beforeStatement: (text: string) => unknown = () => {}
const database = intercept(shared, (text) => beforeStatement(text))
const folder = testFolder(t)
const LEFTOVER = 'import-of-a-killed-process'
mkdirSync(join(folder, 'imports'))
writeFileSync(join(folder, 'imports', LEFTOVER), 'x')
const { admin, app, base, person } = await testApp(
  t,
  { DATA_DIR: folder, IMPORT_LIMIT: '30000000' },
  { database },
)
t.beforeEach(() => {
  beforeStatement = () => {}
})

const needsServer = shared.kind === 'embedded' && 'The embedded database has no other connection'
const MIB = 1_048_576

const product = (fields: Json = {}) =>
  `${JSON.stringify({ sku: createUniqueName('sku'), name: 'Tea', price_amount: 1, ...fields })}\n`
const products = (count: number) => Array.from({ length: count }, () => product()).join('')
const count = async (table: string) =>
  Number((await shared.run(`select count(*) as count from ${table}`))[0]?.count)
const getFields = ({ body, text }: Reply): string[] =>
  body?.error?.details?.map(({ field, code }: Json) => `${field} ${code}`) ?? [text]

/** Revocations of a caller's rights, each with the status of an import that it ends. */
const revocations: [
  name: string,
  status: number,
  revoke: (caller: Person, owner: Database) => Promise<unknown>,
][] = [
  ['suspended', 401, ({ id }) => admin.patch(`/users/${id}`, { status: 'suspended' })],
  ['deleted', 401, ({ id }) => admin.delete(`/users/${id}`)],
  ['demoted', 403, ({ id }) => admin.patch(`/users/${id}`, { role: 'member' })],
  [
    'demoted to a role that may do this too',
    403,
    ({ id }) => admin.patch(`/users/${id}`, { role: 'manager' }),
  ],
  // The caches of another replica are not cleared.
  [
    'suspended by another replica',
    401,
    ({ id }, owner) => owner.run(`update users set status = 'suspended' where id = $1`, [id]),
  ],
  [
    'whose key another replica has deleted',
    401,
    ({ id }, owner) => owner.run('delete from api_keys where user_id = $1', [id]),
  ],
  [
    'whose key has lost its scope',
    403,
    ({ id }, owner) => owner.run(`update api_keys set scopes = '["orders:write"]' where user_id = $1`, [id]),
  ],
]

t.test('an import that is open when its caller loses a right writes nothing', async (t) => {
  for (const [name, status, revoke] of revocations) {
    const caller = await person('admin')
    const before = await count('products')
    const open = await openImport(base, { headers: { 'x-api-key': caller.key }, start: product() })
    await waitUntil(() => app.imports.size === 1)
    await revoke(caller, shared)
    const reply = await open.end(product())
    t.equal(reply.status, status, `a caller who was ${name}`)
    if (status === 401) t.match(reply.headers['www-authenticate'], /^Bearer/)
    t.equal(await count('products'), before)
    t.equal(app.imports.size, 0)
  }
})

t.test('an import that is open when its session ends writes nothing', async (t) => {
  for (const end of [
    (caller: Person) => caller.bearer.delete(`/sessions/${caller.sessionId}`),
    ({ sessionId }: Person) => shared.run('delete from sessions where id = $1', [sessionId]),
  ]) {
    const caller = await person('manager')
    const before = await count('products')
    const open = await openImport(base, {
      headers: { authorization: `Bearer ${caller.token}` },
      start: product(),
    })
    await waitUntil(() => app.imports.size === 1)
    await end(caller)
    const reply = await open.end(product())
    t.match(reply, { status: 401, body: { error: { message: 'Invalid or expired token' } } })
    t.equal(await count('products'), before)
  }
})

t.test('a demoted admin creates no admin by an open import', async (t) => {
  const caller = await person('admin')
  const path = '/users'
  const email = `${createUniqueName('eve')}@example.com`
  for (const headers of [{ 'x-api-key': caller.key }, { 'x-api-key': caller.key, ...createKeyHeader() }]) {
    const open = await openImport(base, { path, headers })
    await waitUntil(() => app.imports.size === 1)
    await shared.run(`update users set role = 'member' where id = $1`, [caller.id])
    const reply = await open.end(`${JSON.stringify({ name: 'Eve', email, role: 'admin' })}\n`)
    t.equal(reply.status, 403)
    t.same((await admin.get(`/users?email=${email}`)).body.data, [])
    await shared.run(`update users set role = 'admin' where id = $1`, [caller.id])
  }
})

/** Calls a function before a statement of an import that matches, once. */
function onStatement(pattern: RegExp, call: () => Promise<unknown>): void {
  beforeStatement = async (text) => {
    if (!pattern.test(text)) return
    beforeStatement = () => {}
    await call()
  }
}

t.test('rights are checked again right before the commit', { skip: needsServer }, async (t) => {
  for (const [name, status, revoke] of revocations) {
    const caller = await person('admin')
    const before = await count('products')
    onStatement(/insert into "products"/, () => revoke(caller, shared))
    const reply = await caller.client.call('POST', '/products', { headers: NDJSON, body: products(3) })
    t.equal(reply.status, status, `a caller who was ${name}`)
    t.equal(await count('products'), before)
  }
})

t.test('an import that takes the rights of its own caller is refused', async (t) => {
  const caller = await person('admin')
  const { email } = (await caller.client.get('/users/me')).body.data
  const reply = await caller.client.call('POST', '/users?on_conflict=email', {
    headers: NDJSON,
    body: `${JSON.stringify({ email, role: 'member' })}\n`,
  })
  t.equal(reply.status, 403)
  t.match((await caller.client.get('/users/me')).body.data, { role: 'admin' })
})

t.test('a membership that ends before the commit refuses all rows', { skip: needsServer }, async (t) => {
  const parts = await createOrganizations(t)
  const teams = await testApp(
    t,
    {},
    { ...parts, database: intercept(parts.database, (text) => beforeStatement(text)) },
  )
  const [ada, bob] = [await teams.person('member'), await teams.person('member')]
  const organization_id = await createOrganization(ada, [bob])
  const project = { organization_id, name: 'Apollo' }
  const { id, code } = (await bob.client.post('/projects', project)).body.data
  const leave = () => removeMember(ada.client, organization_id, bob.id)
  for (const { path, pattern, row } of [
    { path: '/projects', pattern: /insert into "path_projects"/, row: project },
    { path: '/projects?on_conflict=code', pattern: /update "path_projects"/, row: { code, name: 'Mercury' } },
    // A rule over three relations, and a reference to a row that only members read.
    { path: '/tasks', pattern: /insert into "path_tasks"/, row: { project_id: id, name: 'Task' } },
  ]) {
    const send = () => bob.client.call('POST', path, { headers: NDJSON, body: `${JSON.stringify(row)}\n` })
    onStatement(pattern, leave)
    const refused = await send()
    t.equal(refused.status, 403, path)
    t.match(refused.body.error.message, /has lost access/)
    await ada.client.post('/memberships', { organization_id, user_id: bob.id })
    t.equal((await send()).status, 200, refused.text)
  }
  t.equal((await ada.client.get(`/projects?organization_id=${organization_id}`)).body.data.length, 2)
})

t.test('rows that the caller may not change are not locked', { skip: needsServer }, async (t) => {
  const [eve, ada] = [await person('member'), await person('member')]
  for (const { client } of [eve, ada]) await client.post('/user-profiles', { display_name: 'Own' })
  const { data } = (await admin.get(`/user-profiles?user_id=${ada.id}`)).body
  const rows = [eve, ada].map(({ id }) => JSON.stringify({ user_id: id, display_name: 'Eve' }))
  for (const query of ['', '&dry_run=true']) {
    const [reached, held] = [createDeferred(), createDeferred()]
    // The own row is written: all locks of the rows are taken.
    onStatement(/update "user_profiles"/, async () => {
      reached.resolve()
      await held.promise
    })
    const reply = eve.client.call('POST', `/user-profiles?on_conflict=user_id${query}`, {
      headers: NDJSON,
      body: rows.join('\n'),
    })
    await Promise.race([reached.promise, reply])
    const locked = await shared
      .run('select id from user_profiles where id = $1 for update nowait', [data[0].id])
      .catch(() => [])
    t.equal(locked.length, 1, 'no other transaction has locked it')
    held.resolve()
    t.same(getFields(await reply), ['rows.2 FORBIDDEN'])
  }
  t.match((await admin.get(`/user-profiles/${data[0].id}`)).body.data, { display_name: 'Own' })
})

/** Returns the open files of this process that were those of imports. */
const listOpenFiles = () =>
  readdirSync('/proc/self/fd').filter((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`).includes('/imports/import-')
    } catch {
      return false
    }
  })
const needsLinux = process.platform !== 'linux' && 'It lists open files'

t.test('a slow import holds no connection and delays no request', async (t) => {
  // More than the memory is used for, and than was once read ahead on the embedded database.
  const start = `${products(600)}${'\n'.repeat(17 * MIB)}`
  const open = await openImport(base, {
    path: '/products?dry_run=true',
    headers: { 'x-api-key': ADMIN_KEY },
    start,
  })
  await waitUntil(() => app.imports.fileBytes > 14 * MIB)
  t.equal(shared.getLoad().used, 0)
  t.equal((await fetch(`${base}/readyz`)).status, 200)
  t.equal((await admin.post('/products', JSON.parse(product()))).status, 201)
  t.match(await open.end(product()), { status: 200, body: { data: { created: 601 } } })
})

t.test('the file of a body has no name, and ends with the import', { skip: needsLinux }, async (t) => {
  const isGone = () => app.imports.size === 0 && app.imports.fileBytes === 0 && listOpenFiles().length === 0
  t.same(readdirSync(join(folder, 'imports')), [], 'the one that a killed process has left is gone')
  const start = `${product()}${'\n'.repeat(5 * MIB)}`
  const ends: Record<string, (open: Awaited<ReturnType<typeof openImport>>) => Promise<unknown>> = {
    success: async (open) => t.equal((await open.end()).status, 200),
    refusal: async (open) => t.equal((await open.end('{')).status, 422),
    'a body that is too large': async (open) => t.equal((await open.end(' '.repeat(30 * MIB))).status, 413),
    'a client that leaves': async ({ request }) => request.destroy(),
  }
  for (const [name, end] of Object.entries(ends)) {
    const open = await openImport(base, {
      path: '/products?dry_run=true',
      headers: { 'x-api-key': ADMIN_KEY },
      start,
    })
    await waitUntil(() => app.imports.fileBytes > 2 * MIB)
    t.equal(listOpenFiles().length, 1, name)
    t.same(readdirSync(join(folder, 'imports')), [], 'so that a process that is killed leaves none')
    await end(open)
    await waitUntil(isGone)
  }
})

t.test('the files of all imports together are limited', async (t) => {
  const limited = await testApp(t, { IMPORT_LIMIT: '4000000' }, { database: shared })
  const bodies = Array.from({ length: 9 }, () => limited.app.imports.createBody())
  const receive = (body: (typeof bodies)[number]) =>
    body.receive(Readable.from([Buffer.alloc(2_000_000), Buffer.alloc(2_000_000)]))
  const [last, ...others] = bodies.toReversed()
  if (!last) return
  for (const body of others) await receive(body)
  await t.rejects(receive(last), { status: 503, message: 'Too many large imports are running' })
  for (const body of bodies) await body.close()
  t.equal(limited.app.imports.fileBytes, 0)
})

t.test('a large body that cannot be written to the disk is 503', async (t) => {
  const broken = testFolder(t)
  writeFileSync(join(broken, 'imports'), 'a file in the place of the folder')
  const { admin: client, app: other } = await testApp(t, { DATA_DIR: broken }, { database: shared })
  const send = (body: string) => client.call('POST', '/products?dry_run=true', { headers: NDJSON, body })
  const reply = await send(`${product()}${'\n'.repeat(3 * MIB)}`)
  t.match(reply, { status: 503, body: { error: { message: 'The server cannot store the body' } } })
  t.equal((await send(product())).status, 200, 'a small body is in memory')
  t.equal(other.imports.size, 0)
})

t.test('a process has a limited number of imports', async (t) => {
  const ends = Array.from({ length: 20 }, (_, i) => app.imports.begin(`user ${i}`))
  const send = () => admin.call('POST', '/products?dry_run=true', { headers: NDJSON, body: product() })
  const reply = await send()
  t.equal(reply.status, 503)
  t.equal(reply.headers.get('retry-after'), '5')
  for (const end of ends) end()
  t.equal((await send()).status, 200)
})

t.test('an import that takes too long is 503 and writes nothing', async (t) => {
  const before = await count('products')
  const { transaction } = app.imports
  const { maxMs = 0 } = transaction
  t.ok(maxMs > 0 && maxMs + 5_000 <= 60_000, 'with its last statement, which may take 5 s, it is a minute')
  transaction.maxMs = 0
  const reply = await admin.call('POST', '/products', { headers: NDJSON, body: products(3) })
  transaction.maxMs = maxMs
  t.equal(reply.status, 503)
  t.match(reply.body.error.message, /longer than a minute; send fewer/)
  t.equal(await count('products'), before)
})

t.test('the bytes of imports count, whatever becomes of them', async (t) => {
  const time = createClock()
  const settings = { RATE_LIMIT: '100000', RATE_LIMIT_BURST: '100000' }
  const limited = await testApp(t, settings, { database: shared, now: time.now })
  const bodies: [name: string, body: string, status: number, cost: number][] = [
    ['10 MiB of empty lines', createEmptyLines(10 * MIB), 400, 161],
    ['10 rows of 900,000 commas', createRowsOfCommas(10), 422, 1 + Math.floor(9_000_019 / 65_536)],
    ['9 rows of 1 MB', createLongRows(9), 422, 1 + Math.floor(9_000_013 / 65_536)],
    [
      '250 rows',
      `sku,name,price_amount\n${Array.from({ length: 250 }, (_, i) => `${createUniqueName('sku')},a,${i}\n`).join('')}`,
      200,
      3,
    ],
  ]
  for (const [name, body, status, cost] of bodies) {
    const { client } = await limited.person('manager')
    const read = async () => Number(readWindow(await client.get('/users/me')).remaining)
    const before = await read()
    const headers = { 'content-type': 'text/csv' }
    const reply = await client.call('POST', '/products?dry_run=true', { headers, body })
    t.equal(reply.status, status, name)
    await waitUntil(() => limited.app.imports.size === 0)
    // The second reading counts too.
    t.equal(before - (await read()) - 1, cost, name)
  }
})

t.test('a record of a million fields is refused while it is parsed', async (t) => {
  let parsed = 0
  const texts = async function* () {
    yield 'id\n'
    for (; parsed < 1_000_000; parsed += 100) yield ','.repeat(100)
  }
  const fields = { written: new Map(), readOnly: new Set(['id']) }
  const found: Json[] = []
  for await (const rows of parseCsv(texts(), fields, 2 * MIB)) found.push(...rows)
  t.ok(parsed <= 1_100, `after ${parsed} fields`)
  t.match(found.at(-1), {
    number: 1,
    line: 2,
    violations: [{ message: 'The row has more than 1000 fields' }],
  })
  for (const body of [`sku\n${','.repeat(1_000_000)}\n`, `${','.repeat(1_000_000)}\nx`]) {
    const reply = await admin.call('POST', '/products', { headers: { 'content-type': 'text/csv' }, body })
    t.same(getFields(reply), ['rows.1 INVALID_FORMAT'])
  }
})
