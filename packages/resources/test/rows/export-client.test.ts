/** The client package and the commands read exports, end them when they are left, and notice incomplete ones. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { text } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import { createClient, NetworkError, RateLimitError } from '../../../client/src/index.ts'
import { ADMIN_KEY, testApp } from '../../../testing/helpers/app.ts'
import { runCommand } from '../../../testing/helpers/command.ts'
import { type Owner, testFolder } from '../../../testing/helpers/database.ts'
import { listen } from '../../../testing/helpers/network.ts'
import { insertRows } from '../../../testing/helpers/rows.ts'
import { waitUntil } from '../../../testing/helpers/time.ts'
import { NDJSON, parseRecords, walkList } from './read-export.ts'

const COUNT = 1_500
const { admin, app, base, database } = await testApp(t)
await insertRows(database, 'users', Array(COUNT).fill({ name: 'x'.repeat(200) }))
const client = createClient({ baseUrl: base, apiKey: ADMIN_KEY })
t.beforeEach(() => waitUntil(() => app.exports.size === 0))

t.test('an export yields the rows of the list, narrowed by its query', async (t) => {
  const rows = []
  for await (const row of client.users.export({ role: 'member', sort: ['name'], fields: ['name', 'role'] }))
    rows.push(row)
  t.strictSame(rows, await walkList(admin, '/users?role=member&sort=name&fields=name,role'))
})

t.test('its bytes are a stream, as CSV if that is asked for', async (t) => {
  const csv = await new Response(await client.users.exportStream({}, { format: 'csv' })).text()
  t.equal(parseRecords(csv).length, (await walkList(admin, '/users')).length + 1)
})

t.test('leaving the loop and an abort end the export', async (t) => {
  for await (const row of client.users.export()) {
    t.type(row.id, 'string')
    break
  }
  await waitUntil(() => app.exports.size === 0)
  const leaving = new AbortController()
  const rows = client.users.export({}, { signal: leaving.signal })
  await t.rejects(
    async () => {
      for await (const _ of rows) leaving.abort(new Error('Enough'))
    },
    { message: 'Enough' },
  )
  await waitUntil(() => app.exports.size === 0)
  await t.rejects(client.users.exportStream({}, { signal: AbortSignal.abort(new Error('Before')) }), {
    message: 'Before',
  })
})

/** Starts a server whose exports end after the first row. */
async function startCutServer(t: Owner): Promise<string> {
  const server = createServer((_request, response) => {
    response.writeHead(200, { 'content-type': NDJSON })
    response.write('{"id":"1"}\n{"id"', () => response.destroy())
  })
  t.teardown(() => server.close())
  return `http://127.0.0.1:${await listen(server)}`
}

t.test('a second export is a RateLimitError, an incomplete one a NetworkError', async (t) => {
  const body = await client.users.exportStream()
  // Shorter than the 5 s of Retry-After, so that the request is not sent again.
  const deadlineMs = 1_000
  await t.rejects(client.users.exportStream({}, { deadlineMs }), RateLimitError)
  await body.cancel()
  const cut = await startCutServer(t)
  const rows: unknown[] = []
  await t.rejects(async () => {
    for await (const row of createClient({ baseUrl: cut, apiKey: 'key' }).users.export()) rows.push(row)
  }, NetworkError)
  t.strictSame(rows, [{ id: '1' }])
})

t.test('an export that could not begin is sent again, within its time limit', async (t) => {
  let requests = 0
  const server = createServer((request, response) => {
    requests += 1
    if (requests === 1) return request.socket.destroy()
    if (requests === 2) return response.writeHead(503, { 'retry-after': '0' }).end()
    if (requests === 3) response.writeHead(200, { 'content-type': NDJSON }).end('{"id":"1"}\n')
    // The fourth request has no response.
  })
  t.teardown(() => server.close())
  t.teardown(() => server.closeAllConnections())
  const { users } = createClient({ baseUrl: `http://127.0.0.1:${await listen(server)}`, apiKey: 'key' })
  const rows: unknown[] = []
  for await (const row of users.export()) rows.push(row)
  t.strictSame(rows, [{ id: '1' }])
  t.equal(requests, 3)
  await t.rejects(users.exportStream({}, { deadlineMs: 50 }), { name: 'TimeoutError' })
})

const runFor = (t: Test, args: string) => runCommand(t, args, { RESOURCE_API_KEY: ADMIN_KEY })

t.test('the command writes an export to standard output or to a file', async (t) => {
  const run = (args: string, url = base) => runFor(t, `export --url ${url} ${args}`)
  const out = new PassThrough()
  const printed = text(out)
  const stdout = t.intercept(process, 'stdout', { value: out })
  t.match(await run('users --format csv --filter sort=name --filter role=member'), { code: 0, err: '' })
  stdout.restore()
  out.end()
  t.equal(parseRecords(await printed).length, COUNT + 1)

  const file = join(testFolder(t), 'users.ndjson')
  t.match(await run(`users --output ${file}`), { code: 0, out: '', err: '' })
  t.equal(readFileSync(file, 'utf8').split('\n').length, COUNT + 2)
  t.notOk(existsSync(`${file}.part`))

  writeFileSync(file, 'former')
  t.match(await run(`users --output ${file}`, await startCutServer(t)), {
    code: 1,
    err: /^export failed: The export is incomplete/,
  })
  t.equal(readFileSync(file, 'utf8'), 'former', 'an incomplete export replaces nothing')
  t.notOk(existsSync(`${file}.part`))

  t.match(await run('users --filter role'), { code: 2, err: /--filter role: must be name=value/ })
  t.match(await run('Users'), { code: 2, err: /The collection must be a name/ })
  t.match(await run('users --filter role=king'), { code: 1, err: /^export failed: .*role/s })
})

t.test('the command imports a file, and prints what is wrong with its rows', async (t) => {
  const file = join(testFolder(t), 'users.csv')
  const run = (text: string) => runFor(t, `import users --url ${base} --file ${file} --format csv ${text}`)
  writeFileSync(file, 'name,email\nAda,ada.import@example.com\n')
  const expected = '1 created, 0 updated, 0 unchanged\n'
  t.match(await run('--dry-run'), { code: 0, out: `Nothing was written. ${expected}` })
  t.match(await run(''), { code: 0, out: expected })
  writeFileSync(file, 'name,email\nGrace,ada.import@example.com\n')
  const out = '{"created":0,"updated":1,"unchanged":0}\n'
  t.match(await run('--on-conflict email --json'), { code: 0, out })
  t.match((await admin.get('/users?email=ada.import@example.com')).body.data, [{ name: 'Grace' }])
  t.match(await run(''), { code: 1, err: /rows\.1\.email is taken \(line 2\)/ })
  t.match(await run('--file /nothing'), { code: 1, err: /nothing/ })
})
