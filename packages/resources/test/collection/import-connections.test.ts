/** Imports of clients that leave, are slow or come together: nothing is written by halves, and nothing is held. */
import { once } from 'node:events'
import { request as httpRequest } from 'node:http'
import { connect, type Socket } from 'node:net'
import { PassThrough, Readable } from 'node:stream'
import { setImmediate as nextIteration } from 'node:timers/promises'
import t, { type Test } from 'tap'
import type { Transaction } from '../../../database/src/client/types.ts'
import { ADMIN_KEY, type Json, testApp } from '../../../testing/helpers/app.ts'
import { createSharedDatabase, testFolder } from '../../../testing/helpers/database.ts'
import { createKeyHeader } from '../../../testing/helpers/replies.ts'
import { createUniqueName } from '../../../testing/helpers/versioned-client.ts'
import { parseCsv } from '../../src/request/rows/csv.ts'
import { parseNdjson } from '../../src/request/rows/ndjson.ts'
import { readPieces } from '../../src/request/rows/read-pieces.ts'
import { ReceivedBody } from '../../src/request/rows/received-body.ts'

const database = await createSharedDatabase(t)
const { admin, adminId, app, base, person } = await testApp(t, {}, { database })

const HEADERS = { 'content-type': 'application/x-ndjson', 'x-api-key': ADMIN_KEY }
const row = (sku = createUniqueName('sku'), fields: Json = {}) =>
  `${JSON.stringify({ sku, name: 'Tea', price_amount: 1, ...fields })}\n`
const rows = (count: number) => Array.from({ length: count }, () => row()).join('')
const countProducts = async () =>
  Number((await database.run('select count(*) as count from products'))[0]?.count)

/** Waits until nothing holds a connection. */
async function awaitIdle() {
  while (database.getLoad().used > 0) await nextIteration()
}

/**
 * Begins an import.
 * @returns the connection, when it has taken all these rows
 */
async function beginImport(count: number, description = ''): Promise<Socket> {
  const request = httpRequest(`${base}/products`, { method: 'POST', headers: HEADERS })
  request.on('error', () => {})
  for (let left = count; left > 0; left -= 1_000) {
    const part = Array.from({ length: Math.min(left, 1_000) }, () => row(undefined, { description }))
    if (!request.write(part.join(''))) await once(request, 'drain')
  }
  if (!request.socket) throw new Error('The request has no connection')
  return request.socket
}

/** A client leaves by a close and by a reset. */
async function leaveImports(t: Test, count: number, description?: string): Promise<void> {
  const before = await countProducts()
  for (const leave of ['destroy', 'resetAndDestroy'] as const) {
    const socket = await beginImport(count, description)
    socket[leave]()
    let status = 429
    while (status === 429) {
      const reply = await admin.call('POST', '/products?dry_run=true', { headers: HEADERS, body: row() })
      status = reply.status
    }
    t.equal(status, 200)
    await awaitIdle()
    t.equal(await countProducts(), before)
    t.equal(app.imports.size, 0)
  }
}

t.test('a client that leaves has written nothing, and can import again', (t) => leaveImports(t, 3_000))

// More bytes than the memory is used for.
t.test('a client that leaves at row 60,000', (t) => leaveImports(t, 60_000, 'text '.repeat(60)))

t.test(
  'a client that first sends all of a refused file reads the response, and keeps its connection',
  async (t) => {
    const body = `sku,sku\n${'a,b\n'.repeat(3_000_000)}`
    const socket = connect(Number(new URL(base).port), '127.0.0.1')
    t.teardown(() => socket.destroy())
    const head = (method: string) => `${method} /products HTTP/1.1\r\nHost: a\r\nX-API-Key: ${ADMIN_KEY}\r\n`
    socket.write(`${head('POST')}Content-Type: text/csv\r\nContent-Length: ${body.length}\r\n\r\n`)
    await new Promise((resolve) => socket.write(body, resolve))
    const [reply] = await once(socket, 'data')
    t.match(String(reply), /^HTTP\/1.1 422 /)
    socket.write(`${head('HEAD')}\r\n`)
    const [next] = await once(socket, 'data')
    t.match(String(next), /^HTTP\/1.1 200 /)
  },
)

const needsServer = database.kind === 'embedded' && 'The embedded database has no other connection'
t.test(
  'a connection that is lost is 503, and the same key imports later',
  { skip: needsServer },
  async (t) => {
    const before = await countProducts()
    const headers = { ...HEADERS, ...createKeyHeader() }
    const body = rows(5_000)
    const send = () => admin.call('POST', '/products', { headers, body })
    const reply = send()
    let isEnded = false
    while (!isEnded) {
      const ended = await database.run(
        `select pg_terminate_backend(pid) from pg_stat_activity
       where datname = current_database() and pid <> pg_backend_pid() and query like '%insert into "products"%' and xact_start is not null`,
      )
      isEnded = ended.length > 0
    }
    const { status, body: answer } = await reply
    t.match({ status, answer }, { status: 503, answer: { error: { code: 'SERVICE_UNAVAILABLE' } } })
    t.equal(await countProducts(), before)
    t.equal(app.imports.size, 0)
    await awaitIdle()
    t.match((await send()).body.data, { created: 5_000 })
  },
)

t.test('a user has one import at a time', async (t) => {
  const send = () => admin.call('POST', '/products?dry_run=true', { headers: HEADERS, body: rows(500) })
  const end = app.imports.begin(adminId)
  const reply = await send()
  end()
  t.equal(reply.status, 429)
  t.equal(reply.headers.get('retry-after'), '5')
  t.equal((await send()).status, 200)
})

t.test('two imports of the same rows: one is whole, the other is refused', async (t) => {
  const skus = Array.from({ length: 1_500 }, () => createUniqueName('sku'))
  const before = await countProducts()
  const { client } = await person('admin')
  const send = (client_: typeof admin, order: readonly string[]) =>
    client_.call('POST', '/products', {
      headers: { 'content-type': 'application/x-ndjson' },
      body: order.map((sku) => row(sku)).join(''),
    })
  const replies = await Promise.all([
    send(client, skus),
    send((await person('admin')).client, skus.toReversed()),
  ])
  const statuses = replies.map(({ status }) => status).sort()
  t.equal(statuses[0], 200)
  t.ok([422, 503].includes(statuses[1] ?? 0), `${statuses}`)
  t.equal(await countProducts(), before + skus.length)
})

const createBody = (options = {}) =>
  new ReceivedBody({
    maxBytes: 1_000_000,
    receiveMs: 60_000,
    folder: testFolder(t),
    addFileBytes() {},
    ...options,
  })

t.test('a body of which nothing arrives for a while, or which does not arrive in time, is 408', async (t) => {
  for (const options of [{ partTimeoutMs: 20 }, { receiveMs: 20 }]) {
    const stream = new PassThrough()
    stream.write(row())
    await t.rejects(createBody(options).receive(stream), { code: 'REQUEST_TIMEOUT' })
    stream.destroy()
  }
})

t.test('a body in chunks of one byte is refused, and so is one that is not UTF-8', async (t) => {
  const bytes = [...Buffer.from(rows(100))].map((byte) => Buffer.from([byte]))
  await t.rejects(createBody().receive(Readable.from(bytes)), { code: 'INVALID_REQUEST' })
  const read = async (chunks: Iterable<Buffer>) => {
    const parse = (texts: AsyncIterable<string>) => parseNdjson(texts, 1_000)
    for await (const _ of readPieces(Readable.from(chunks), parse, 10_000));
  }
  await t.rejects(read([Buffer.from([0xff, 0xfe, 0x61, 0])]), { message: 'The body is not valid UTF-8' })
})

t.test('rows do not depend on how the text is cut', async (t) => {
  const fields = {
    written: new Map([
      ['a', { type: 'string' }],
      ['b', { type: ['integer', 'null'] }],
      ['c', { type: 'object' }],
    ]) as unknown as Parameters<typeof parseCsv>[1]['written'],
    readOnly: new Set(['id']),
  }
  const texts = [
    'id,a,b,c\r\n\r\n1,"x\r\ny",1,\n\n"2","""é""",,"{""d"":[1]}"\n3,z,+1,{\n4\n',
    'a,b\nx,1\ny,"1"2\nz,3',
    'a,b\nx,1\n\n\ny,"1\n\n',
  ]
  const collect = async (parts: ReturnType<typeof parseNdjson>) => {
    const found: Json[] = []
    for await (const rows of parts) found.push(...rows)
    return found
  }
  const readCsv = (parts: Iterable<string>) => collect(parseCsv(Readable.from(parts), fields, 1_000))
  const readJson = (parts: Iterable<string>, maxBytes = 1_000) =>
    collect(parseNdjson(Readable.from(parts), maxBytes))
  for (const text of texts) {
    const whole = await readCsv([text])
    t.same(await readCsv([...text]), whole)
    t.ok(whole.length > 1)
  }
  const [first, second, , last] = await readCsv([texts[0] ?? ''])
  t.match(first, { number: 1, line: 3, value: { a: 'x\r\ny', b: 1 } })
  t.match(second, { number: 2, line: 6, value: { a: '"é"', c: { d: [1] } } })
  t.match(last, { number: 4, line: 8, violations: [{ code: 'INVALID_FORMAT' }] })
  const json = '{"a":1}\r\n\n[1]\n{"a":\n{"b":2}'
  t.same(await readJson([...json]), await readJson([json]))
  const long = await readJson(['{"a":"', 'x'.repeat(20), '"}\n{"a":1}\n'], 10)
  t.match(long, [{ violations: [{ code: 'TOO_LONG' }] }, { number: 2, value: { a: 1 } }])
})

t.test('a transaction begins no statement after its time, also where an error is caught', async (t) => {
  const work = async (tx: Transaction) => {
    await tx.run('select 1').catch(() => {})
    return 'done'
  }
  await t.rejects(database.transaction(work, { maxMs: 0, maxRetries: 0 }), { name: 'DatabaseUnavailable' })
  t.equal(await database.transaction(work, { maxMs: 60_000 }), 'done')
})

t.test('hooks run once before the commit, in the order of their names, with the last value', async (t) => {
  const ran: string[] = []
  const createHook = (name: string) => ({
    name,
    async run(value: number) {
      ran.push(`${name} ${value}`)
      return true
    },
  })
  const [first, second] = [createHook('b'), createHook('a')]
  const add = (value = 0) => value + 1
  await database.transaction(async (tx) => {
    for (const hook of [first, second, first]) tx.beforeCommit(hook, hook, add)
    const undone = tx.savepoint(async () => {
      tx.beforeCommit(first, first, add)
      throw new Error('undone')
    })
    await t.rejects(undone, { message: 'undone' })
  })
  t.same(ran, ['a 1', 'b 2'])
  await t.rejects(
    database.transaction(async (tx) => {
      tx.beforeCommit(first, first, add)
      throw new Error('failed')
    }),
  )
  t.equal(ran.length, 2, 'a transaction that fails runs none')
})

t.test('a savepoint undoes its statements, and the transaction goes on', async (t) => {
  const id = await database.transaction(async (tx) => {
    await tx.savepoint(() => tx.run('select 1'))
    await t.rejects(tx.savepoint(() => tx.run('select 1 / 0')))
    await t.rejects(
      tx.savepoint(async () => {
        await tx.run('select 1 / 0').catch(() => {})
      }),
    )
    const [found] = await tx.run('select 2 as id')
    return found?.id
  })
  t.equal(Number(id), 2)
})
