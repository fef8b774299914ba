/**
 * `npm run new` in a copy of the repository: what it writes compiles, passes the linter and its own test, and serves the
 * resource. In a process of its own, because it changes the environment.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline/promises'
import t from 'tap'
import { ADMIN_KEY, createClient, type Json } from '../helpers/app.ts'
import { getIds, getViolations } from '../helpers/replies.ts'
import { waitUntil } from '../helpers/time.ts'
import { createEndpoint, startReceiver, verify } from '../helpers/webhooks.ts'
import { copyRepository, TEST_OPTIONS } from './repository-copy.ts'

// The migration of the copy has another time in each run. A server would keep a template database for each.
delete process.env.DATABASE_URL

const { copy, read, run, runNew } = copyRepository(t)

/** The files and their contents that the command may change. */
const takeSnapshot = () =>
  [
    ...readdirSync(copy, { recursive: true, encoding: 'utf8' }).filter(
      (path) => /\.(ts|json|sql)$/.test(path) && !path.includes('node_modules'),
    ),
  ]
    .sort()
    .map((path) => `${path} ${read(path).length}`)

const REVIEWS = [
  'reviews',
  ...['--description', 'What users say about profiles'],
  ...['--fields', 'profile_id:ref(user-profiles)!, rating:integer(1..5), body:multiline(1..2000)'],
  ...['--owner', 'user_id'],
  ...['--unique', 'user_id,profile_id'],
  ...['--states', 'pending>published>hidden!'],
  ...['--visible', 'status=published'],
]

/** The files that are written by hand where there is no command. */
const WRITTEN = [
  'schemas/reviews.ts',
  'plugins/resources/reviews.ts',
  'test/resources/reviews.test.ts',
  'test/resources/reviews.examples.ts',
  'src/cli/demo-data/reviews.ts',
  'drizzle/tables/reviews.ts',
  'src/own.ts',
  'client/src/own-collections.ts',
]

t.test('a step that fails leaves all files as they were', async (t) => {
  const before = takeSnapshot()
  const script = read('package.json')
  writeFileSync(join(copy, 'package.json'), script.replace('"docs": "', '"docs": "exit 3; '))
  const { code, stderr } = await runNew(...REVIEWS)
  writeFileSync(join(copy, 'package.json'), script)
  t.equal(code, 1)
  t.match(stderr, 'npm run docs failed')
  t.match(stderr, 'All files are as they were before.')
  t.same(takeSnapshot(), before)
})

t.test('the files of a new resource are written', async (t) => {
  const { code, stdout, stderr } = await runNew(...REVIEWS)
  t.equal(code, 0, stderr)
  for (const path of [...WRITTEN, 'client/src/openapi.ts', 'docs/openapi/v2.json']) {
    t.match(stdout, `  ${path}\n`)
    t.match(read(path), /[Rr]eviews/, path)
  }
  const migration = /drizzle\/own-migrations\/\d+_reviews\.sql/.exec(stdout)?.[0] ?? ''
  t.match(read(migration), 'CREATE UNIQUE INDEX "reviews_user_id_profile_id_unique"')
  t.notMatch(read(migration), /DROP|ALTER TABLE "(?!reviews")/, 'other tables are not changed')
})

t.test('they compile, pass the linter and their own test', async (t) => {
  const tsc = 'node_modules/typescript/bin/tsc'
  const test = 'test/resources/reviews.test.ts'
  // Of the other tests, the benchmark and the scripts, none can depend on a new resource.
  const product = ['src', 'plugins', 'schemas', 'drizzle', 'lib', 'test/resources/reviews.*.ts']
  writeFileSync(
    join(copy, 'tsconfig.new.json'),
    JSON.stringify({ extends: './tsconfig.json', include: product }),
  )
  const checks = {
    types: [tsc, '-p', 'tsconfig.new.json'],
    'types of the client': [tsc, '--noEmit', '-p', 'client'],
    linter: ['node_modules/@biomejs/biome/bin/biome', 'check', '--error-on-warnings', ...WRITTEN],
    test: [...TEST_OPTIONS, test],
  }
  for (const [name, args] of Object.entries(checks)) {
    const { code, stdout, stderr } = await run(args)
    t.equal(code, 0, code === 0 ? name : `${name}: ${stdout.slice(-2000)}${stderr.slice(-2000)}`)
  }
})

/** Starts the app of the copy with two members and a manager, and prints their credentials. It ends with its standard input. */
const APP = `
  import { testApp } from './test/helpers/app.ts'
  const teardowns = []
  const { base, person } = await testApp({ teardown: (undo) => teardowns.unshift(undo) })
  const people = [await person('member'), await person('member'), await person('manager')]
  console.log(JSON.stringify({ base, people: people.map(({ id, key, token }) => ({ id, key, token })) }))
  process.stdin.resume().once('end', async () => {
    for (const undo of teardowns) await undo()
  })
`

interface StartedApp {
  base: string
  people: [Person, Person, Person]
}
type Person = Record<'id' | 'key' | 'token', string>

async function startApp(): Promise<StartedApp> {
  const child = spawn(process.execPath, [...TEST_OPTIONS, '--input-type=module', '--eval', APP], {
    cwd: copy,
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const closed = once(child, 'close')
  t.teardown(async () => {
    child.stdin.end()
    await closed
  })
  for await (const line of createInterface(child.stdout)) return JSON.parse(line)
  throw new Error('The app of the copy did not start')
}

t.test('the service serves the resource, and its changes are events', async (t) => {
  const {
    base,
    people: [{ id: userId, key, token }, { key: otherKey }, { token: managerToken }],
  } = await startApp()
  const admin = createClient(base, { 'x-api-key': ADMIN_KEY })
  const author = createClient(base, { 'x-api-key': key })
  const bearer = createClient(base, { authorization: `Bearer ${token}` })
  const other = createClient(base, { 'x-api-key': otherKey })
  const manager = createClient(base, { authorization: `Bearer ${managerToken}` })
  const receiver = await startReceiver(t)
  const { secret } = await createEndpoint(manager, receiver.url, { event_types: ['reviews.*'] })
  const profile = await admin.post('/user-profiles', { display_name: 'Ada' })
  const body = { profile_id: profile.body.data.id, rating: 5, body: 'Warm.\nAnd green.' }

  const created = await author.post('/v2/reviews', { data: { type: 'reviews', attributes: body } })
  t.equal(created.status, 201)
  const { id } = created.body.data
  t.match(created.body.data.attributes, { ...body, user_id: userId, status: 'pending' })

  const again = await author.post('/reviews', body)
  t.equal(again.status, 409)
  t.same(getViolations(again), ['profile_id ALREADY_EXISTS', 'user_id ALREADY_EXISTS'])
  t.equal((await other.post('/reviews', body)).status, 201, 'another user may review the profile too')

  const operations = [
    { method: 'POST', path: '/users', body: { name: 'Bo', email: 'bo@example.com' } },
    { method: 'POST', path: '/user-profiles', body: { user_id: '$0' } },
    { method: 'POST', path: '/reviews', body: { ...body, profile_id: '$1' } },
    { method: 'PATCH', path: '/reviews/$2', body: { rating: 4 } },
    { method: 'DELETE', path: '/reviews/$2' },
  ]
  const batch = await admin.post('/batches', { operations })
  t.equal(batch.status, 200, batch.text)
  t.equal(batch.body.data.results[3].body.rating, 4)

  t.equal((await other.get(`/reviews/${id}`)).status, 403)
  t.equal((await author.patch(`/reviews/${id}`, { status: 'published' })).status, 403)
  t.equal((await admin.patch(`/reviews/${id}`, { status: 'published' })).status, 200)
  t.equal((await other.get(`/reviews/${id}`)).status, 200)
  const list = await other.get(`/reviews?sort=-rating&status=published&search=GREEN&include=user,profile`)
  t.same(getIds(list), [id])
  t.equal(list.body.data[0].profile.display_name, 'Ada')
  t.same(getIds(await admin.get('/reviews?status_not=pending,hidden&user.status=active')), [id])
  t.same(
    getIds(await other.get('/reviews?user.status=active&status=published')),
    [],
    'whom a member may not read',
  )
  const back = await admin.patch(`/reviews/${id}`, { status: 'pending' })
  t.equal(back.status, 409)
  t.same(getViolations(back), ['status INVALID_TRANSITION'])

  const feed = `/events?sort=position&type=reviews.*&resource_id=${id}`
  await waitUntil(async () => (await admin.get(feed)).body.data.length === 2)
  const { data: events }: Json = (await admin.get(feed)).body
  t.match(events, [
    { type: 'reviews.created', actor_id: userId, data: { ...body, status: 'pending' }, previous: null },
    { type: 'reviews.updated', data: { status: 'published' }, previous: { status: 'pending' } },
  ])
  t.same(getIds(await author.get(feed)), getIds(await admin.get(feed)), 'the author reads them too')
  t.same(getIds(await other.get(feed)), [])
  const isDelivered = (event: Json) =>
    receiver.received.some((each) => each.headers['webhook-id'] === event.id)
  await waitUntil(() => events.every(isDelivered))
  for (const webhook of receiver.received)
    t.match(verify(secret, webhook), { data: { resource_type: 'reviews' } })

  const scopes = ['reviews:read', 'events:read']
  const follower = await bearer.post('/api-keys', { name: 'Follower', scopes })
  const follow = createClient(base, { 'x-api-key': follower.body.data.key })
  t.equal((await follow.get(feed)).body.data.length, 2, 'an API key needs events:read and reviews:read')

  const minted = await bearer.post('/api-keys', { name: 'Reviews', scopes: ['reviews:read'] })
  t.equal(minted.status, 201, 'API keys can have its scopes')
  const document = (await createClient(base, {}).get('/openapi/v1.json')).body
  t.ok(document.paths['/api/v1/reviews'].post)
  t.equal(
    (await admin.delete(`/user-profiles/${body.profile_id}`)).status,
    409,
    'a profile with reviews stays',
  )
})

t.test('a resource that exists is not overwritten', async (t) => {
  const before = takeSnapshot()
  const { code, stderr } = await runNew(...REVIEWS)
  t.equal(code, 2)
  t.match(stderr, 'There is a resource "reviews" already')
  t.same(takeSnapshot(), before)
})
