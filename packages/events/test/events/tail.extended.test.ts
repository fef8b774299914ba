/** `events tail` prints the stream of the client package, says why it connects again, and fails if it is refused. */
import t, { type Test } from 'tap'
import { testApp } from '../../../testing/helpers/app.ts'
import { runCommand } from '../../../testing/helpers/command.ts'
import { startFakeEventServer } from '../../../testing/helpers/fake-event-server.ts'
import { findFreePort } from '../../../testing/helpers/network.ts'
import { startModule } from '../../../testing/helpers/process.ts'
import { waitUntil } from '../../../testing/helpers/time.ts'

const KEY = 'rak_a-secret-key'
const SETTINGS = { RESOURCE_API_KEY: KEY }
const EXPIRED = { status: 410, code: 'EVENTS_EXPIRED', message: 'Events after the cursor were removed' }
const USER = '01a204a7-62ae-72fd-96c9-e4ed7b9e78e9'
const PRODUCT = '01a2049f-b4cb-706e-aac4-ae1128997c36'

/** Starts a server, and the command until the server refuses the stream. */
async function startTail(t: Test, args: string) {
  const server = await startFakeEventServer(t, { apiKey: KEY })
  const result = runCommand(t, `events tail --url ${server.url} ${args}`, SETTINGS)
  const open = () => waitUntil(() => server.streams.size === 1)
  const end = () => {
    server.refusals.push(EXPIRED)
    server.end()
    return result
  }
  return { server, open, end }
}

t.test('each event is a line of aligned columns', async (t) => {
  const { server, open, end } = await startTail(t, '--from cursor-0')
  await open()
  server.add({ type: 'users.created', resource_id: PRODUCT, actor_id: USER })
  const previous = { stock: 3, status: 'draft' }
  server.add({ type: 'user-profiles.updated', resource_id: PRODUCT, actor_id: USER, previous })
  const system = { actor_id: null, credential: 'system', previous: { role: 'member' } } as const
  server.add({ type: 'users.updated', resource_id: USER, ...system })
  server.add({ type: 'webhook-endpoints.deleted', resource_id: PRODUCT, actor_id: USER })
  const { code, out, err } = await end()
  t.equal(code, 1)
  t.same(out.split('\n'), [
    `2026-11-22T12:00:00Z  users.created          ${PRODUCT}  ${USER}`,
    `2026-11-22T12:00:00Z  user-profiles.updated  ${PRODUCT}  ${USER}  stock, status`,
    `2026-11-22T12:00:00Z  users.updated          ${USER}  ${'system'.padEnd(36)}  role`,
    `2026-11-22T12:00:00Z  webhook-endpoints.deleted  ${PRODUCT}  ${USER}`,
    '',
  ])
  t.match(err, /\nevents tail failed: Events after the cursor were removed\n$/)
  t.equal(server.requests[0]?.headers['last-event-id'], 'cursor-0')
  t.equal(server.requests[0]?.headers['x-api-key'], KEY)
})

t.test('after a loss the command says why and goes on after the last event', async (t) => {
  const { server, open, end } = await startTail(t, '')
  await open()
  server.add({ resource_id: 'first' })
  server.refusals.push({ status: 503, message: 'The service is shutting down' })
  server.end()
  await waitUntil(() => server.requests.length === 3)
  await open()
  server.add({ resource_id: 'second' })
  const { out, err } = await end()
  t.equal(server.requests[2]?.headers['last-event-id'], 'cursor-1')
  t.match(out, /^.* first .*\n.* second .*\n$/)
  for (const reason of ['The server ended the stream', 'The service is shutting down'])
    t.match(err, `No connection to ${server.url}: ${reason}. Connecting again in 0.0 s\n`)
})

t.test('what the server refuses is an error with its message and exit code 1', async (t) => {
  const server = await startFakeEventServer(t, { apiKey: KEY })
  const run = (args: string) => runCommand(t, `events tail --url ${server.url} ${args}`, SETTINGS)
  t.match(await run('--key wrong'), {
    code: 1,
    out: '',
    err: 'events tail failed: Invalid or expired API key\n',
  })
  server.removeUntil(5)
  t.match(await run('--from cursor-3'), { code: 1, err: /Events after the cursor were removed\n$/ })
  server.refusals.push({ status: 302, headers: { Location: 'http://other' }, message: '' })
  t.match(await run(''), { code: 1 })
  t.equal(server.requests.length, 3)
})

t.test('arguments that cannot be used are usage errors, which repeat no secret', async (t) => {
  const invalidUrl = '--url must be an http:// or https:// URL without a query, fragment or credentials'
  for (const [args, message] of [
    ['--url ftp://host', invalidUrl],
    ['--url host:3000', invalidUrl],
    ['--url http://user:hunter2@host', invalidUrl],
    ['--key sécret', 'The API key must consist of visible ASCII characters'],
    ['--from é', '--from must consist of visible ASCII characters'],
  ] as const) {
    const { code, err } = await runCommand(t, `events tail ${args}`, SETTINGS)
    t.equal(code, 2, args)
    t.equal(err.split('\n')[0], `error: ${message}`)
    t.notMatch(err, /hunter2|sécret/)
  }
  const missing = await runCommand(t, 'events tail')
  t.match(missing, { code: 2, err: /^error: --key or RESOURCE_API_KEY is required$/m })
})

t.test('while the server is away, the command says why and tries again', async (t) => {
  const port = await findFreePort()
  const settings = { ...SETTINGS, PORT: `${port}` }
  const { child, output, ended } = startModule(t, 'cli.ts', settings, ['events', 'tail'])
  await waitUntil(() => output.err.includes('\n'))
  const url = `http://127.0.0.1:${port}`
  t.match(
    output.err,
    new RegExp(`^No connection to ${url}: connect ECONNREFUSED \\S+\\. Connecting again in 1\\.\\d s\n`),
  )
  child.kill('SIGINT')
  t.same(await ended, { code: 0, signal: null }, 'and Ctrl-C ends the wait')
})

t.test('Ctrl-C ends the command with exit code 0 and the cursor that leads to the next events', async (t) => {
  const { base, person } = await testApp(t)
  const { id: userId, key, client } = await person('manager', ['events:read', 'products:write'])
  const createProduct = async (sku: string): Promise<string> => {
    const reply = await client.post('/products', { sku, name: 'Tea', price_amount: 500 })
    return reply.body.data.id
  }
  const start = (...args: string[]) =>
    startModule(t, 'cli.ts', { RESOURCE_API_KEY: key }, ['events', 'tail', '--url', base, ...args])
  // A stream begins now: from a cursor, the test does not have to wait until it is open.
  const page = await client.get('/events?sort=position&type=products.*')
  const from = page.body.pagination.cursor

  const first = start('--type', 'products.*', '--from', from)
  const id = await createProduct('TEA-1')
  await client.patch(`/products/${id}`, { stock: 5, status: 'active' })
  await waitUntil(() => first.output.out.includes('updated'))
  first.child.kill('SIGINT')
  t.same(await first.ended, { code: 0, signal: null })
  t.same(first.output.out.replace(/^\S+/gm, 'TIME').split('\n'), [
    `TIME  products.created       ${id}  ${userId}`,
    `TIME  products.updated       ${id}  ${userId}  stock, status`,
    '',
  ])

  const [, cursor = ''] = /^Stopped\. To go on from here: --from (\S+)\n$/.exec(first.output.err) ?? []
  const other = await createProduct('TEA-2')
  const second = start('--type', 'products.*', '--from', cursor, '--json')
  await waitUntil(() => second.output.out.includes('\n'))
  second.child.kill('SIGINT')
  await second.ended
  const event = { type: 'products.created', resource_id: other, data: { sku: 'TEA-2' } }
  t.match(JSON.parse(second.output.out), event)
})
