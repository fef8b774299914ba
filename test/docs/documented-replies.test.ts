/** Every reply has the status, headers and body that its OpenAPI document declares. */
import { request } from 'node:http'
import t from 'tap'
import { createDatabase } from '../../drizzle/client/database.ts'
import { DatabaseUnavailable } from '../../drizzle/client/errors.ts'
import type { Database } from '../../drizzle/client/index.ts'
import { ADMIN_KEY, type Client, type Json, testApp, UNKNOWN_ID } from '../helpers/app.ts'
import { testDatabase } from '../helpers/database.ts'
import { getDefinition } from '../helpers/definitions.ts'
import { getEvents } from '../helpers/events.ts'
import { createOwnedRows, type OwnedRows } from '../helpers/example-rows.ts'
import { sendRaw } from '../helpers/network.ts'
import { type Answer, createReplyChecker, type Operation, withoutRequired } from '../helpers/reply-checker.ts'
import { createClock } from '../helpers/time.ts'

interface Sent {
  path: string
  headers?: Record<string, string>
  body?: unknown
}

/** Bodies with any method, and heads of any length, as `fetch` would not send them. */
function send(port: number, method: string, { path, headers = {}, body }: Sent): Promise<Answer> {
  const payload = body === undefined || typeof body === 'string' ? body : JSON.stringify(body)
  const framed =
    payload === undefined
      ? {}
      : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(payload) }
  return new Promise((resolve, reject) => {
    const options = { port, method, path, headers: { ...framed, ...headers }, agent: false }
    const sending = request(options, (reply) => {
      const chunks: Buffer[] = []
      reply.on('data', (chunk: Buffer) => chunks.push(chunk))
      reply.on('end', () => {
        const text = Buffer.concat(chunks).toString('utf8')
        resolve({ status: reply.statusCode ?? 0, headers: reply.headers, text })
      })
    })
    sending.on('error', reject)
    sending.end(payload)
  })
}

/** A database that fails on demand. */
function fragile(database: Database) {
  const state: { fault: Error | undefined; delay: number } = { fault: undefined, delay: 0 }
  const unless = <A extends unknown[], R>(work: (...args: A) => Promise<R>) => {
    return (...args: A): Promise<R> => (state.fault ? Promise.reject(state.fault) : work(...args))
  }
  const guarded = createDatabase({
    ...database.$client,
    transaction: (work, limits) =>
      state.fault ? Promise.reject(state.fault) : database.transaction(work, limits),
    run: unless(database.run),
    ping: unless(database.ping),
    estimateWait: () => state.delay || database.estimateWait(),
  })
  return { state, guarded }
}

interface Conflicts {
  create?: Json
  change?: Json
  /** Returns the id of a row that cannot be deleted. */
  remove?(): Promise<string>
}

/** What conflicts with another row or with the state, by resource; absent where nothing can. */
function getConflicts(admin: Client, ownedRows: OwnedRows, adminId: string): Record<string, Conflicts> {
  const order = async () => {
    const { body } = await admin.post('/v1/orders', await ownedRows.creation('orders', adminId))
    return body.data
  }
  return {
    users: {
      create: { name: 'Ada', email: 'admin@example.com' },
      change: { email: 'admin@example.com' },
      remove: async () => {
        const { id } = (await admin.post('/v1/users', await ownedRows.creation('users', adminId))).body.data
        await admin.post('/v1/orders', { ...(await ownedRows.creation('orders', adminId)), user_id: id })
        return id
      },
    },
    products: {
      create: { sku: 'TAKEN', name: 'Tea', price_amount: 1 },
      change: { sku: 'TAKEN' },
      remove: async () => (await order()).items[0].product_id,
    },
    orders: {
      change: { status: 'completed' },
      remove: async () => {
        const { id } = await order()
        await admin.patch(`/v1/orders/${id}`, { status: 'paid' })
        return id
      },
    },
  }
}

const verbOf = ({ method, path }: Operation) =>
  ({
    GET: path.endsWith('{id}') ? 'read' : 'list',
    POST: 'create',
    PUT: 'replace',
    PATCH: 'update',
    DELETE: 'remove',
  })[method] ?? ''

t.test('every reply of every operation conforms to its document', async (t) => {
  const { guarded, state } = fragile(await testDatabase(t))
  const app = await testApp(t, {}, { database: guarded })
  const strict = await testApp(t, { REQUIRE_IF_MATCH: 'true' }, { database: guarded })
  const settings = { RATE_LIMIT: '1', RATE_LIMIT_TOKENS: '1' }
  // The windows of the limits do not end while the test runs.
  const limited = await testApp(t, settings, { database: guarded, now: createClock().now })
  t.equal((await limited.admin.get('/products')).status, 200, 'and no more')
  const portFor = (status: number) => ({ 428: strict.port, 429: limited.port })[status] ?? port
  const { admin, port } = app
  const key = { 'x-api-key': ADMIN_KEY }
  const without = { 'x-api-key': (await app.person('member', ['sessions:read'])).key }
  const ownedRows = createOwnedRows(guarded)
  const conflicts = getConflicts(admin, ownedRows, app.adminId)
  await admin.post('/v1/products', { sku: 'TAKEN', name: 'Tea', price_amount: 1 })
  const slow = sendRaw(
    port,
    `POST /v1/products HTTP/1.1\r\nHost: a\r\nX-API-Key: ${ADMIN_KEY}\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{`,
    { timeoutMs: 15_000 },
  )

  for (const version of [1, 2]) {
    const api = `/api/v${version}`
    const { body: document } = await app.anybody.get(`/openapi/v${version}.json`)
    const { operations, judge, faults } = createReplyChecker(document)
    const { judge: judgeNarrowed } = createReplyChecker(withoutRequired(document))

    for (const operation of operations.filter(({ path }) => path.startsWith('/api/'))) {
      const verb = verbOf(operation)
      const tag = operation.declared.tags[0]
      // Those that are managed with a token have their own walk, below; test/webhooks has those of webhooks.
      if (/^(sessions|api-keys|tokens|events|webhook-endpoints|deliveries|replays)$/.test(tag)) continue
      const create = () => ownedRows.creation(tag, app.adminId)
      const change = ownedRows.change(tag)
      const list = await ownedRows.listOf(tag, app.adminId)
      const collection = api + list
      if (getDefinition(tag).parent) await ownedRows.make(tag, app.adminId)
      const typed = (members: Json, id?: string) =>
        version === 1 ? members : { data: { type: tag, ...(id ? { id } : {}), attributes: members } }

      /** The request that succeeds, on a row of its own. */
      const fine = async (): Promise<Required<Sent>> => {
        if (verb === 'list') return { path: collection, headers: key, body: undefined }
        if (verb === 'create') return { path: collection, headers: key, body: typed(await create()) }
        const { body } = await admin.post(collection, typed(await create()))
        const path = `${collection}/${body.data.id}`
        const whole = version === 1 ? body.data : { data: body.data }
        return { path, headers: key, body: { replace: whole, update: typed(change, body.data.id) }[verb] }
      }

      const conflict = async (sent: Required<Sent>): Promise<Sent | undefined> => {
        const conflict = conflicts[tag] ?? {}
        if (verb === 'remove')
          return conflict.remove && { ...sent, path: `${collection}/${await conflict.remove()}` }
        if (version === 2) return { ...sent, body: { data: { type: 'others', attributes: {} } } }
        if (verb === 'create') return conflict.create && { ...sent, body: conflict.create }
        const whole = verb === 'replace' ? (sent.body as object) : {}
        return conflict.change && { ...sent, body: { ...whole, ...conflict.change } }
      }

      const nowhere = async (sent: Required<Sent>): Promise<Sent> => {
        if (verb === 'list' || verb === 'create')
          return { ...sent, path: sent.path.replace(list, ownedRows.getMissingList(tag)) }
        const body = { replace: typed(await create()), update: typed(change) }[verb]
        return { ...sent, path: sent.path.replace(/[^/]+$/, UNKNOWN_ID), body }
      }

      const failWith = (fault: Error) => (sent: Required<Sent>) => {
        state.fault = fault
        return sent
      }
      type Provoke = (sent: Required<Sent>) => Sent | undefined | Promise<Sent | undefined>
      /** What makes the operation answer with a status. */
      const provocations: Readonly<Record<number, Provoke>> = {
        304: (sent) => ({ ...sent, headers: { ...sent.headers, 'if-none-match': '*' } }),
        400: (sent) => ({ ...sent, path: `${sent.path}?bogus=1` }),
        401: (sent) => ({ ...sent, headers: {} }),
        403: (sent) => ({ ...sent, headers: without }),
        404: nowhere,
        406: (sent) => ({ ...sent, headers: { ...sent.headers, accept: 'text/html' } }),
        409: conflict,
        412: (sent) => ({ ...sent, headers: { ...sent.headers, 'if-match': '"999-x"' } }),
        413: (sent) => ({ ...sent, body: JSON.stringify('x'.repeat(1 << 20)) }),
        414: (sent) => ({ ...sent, path: `${sent.path}?search=${'x'.repeat(9_000)}` }),
        415: (sent) => ({
          ...sent,
          headers: { ...sent.headers, 'content-type': 'text/plain' },
          body: 'text',
        }),
        422: (sent) => ({ ...sent, body: { nope: 1 } }),
        428: (sent) => sent,
        429: (sent) => sent,
        431: (sent) => ({ ...sent, headers: { ...sent.headers, 'x-long': 'x'.repeat(17_000) } }),
        500: failWith(new Error('a fault of the test')),
        503: failWith(new DatabaseUnavailable('a fault of the test')),
      }
      /** Returns undefined where nothing can make the operation answer with the status. */
      const provoke = async (status: number, sent: Required<Sent>): Promise<Sent | undefined> =>
        status < 300 ? sent : provocations[status]?.(sent)

      await t.test(`${operation.operationId} of version ${version}`, async (t) => {
        const declared = Object.keys(operation.declared.responses).map(Number)
        for (const status of declared) {
          const sent = await provoke(status, await fine())
          if (!sent) {
            // One slow request stands for all (below); and some have nothing that could stand in their way.
            t.ok(status === 408 || status === 409, `${status} cannot be had here`)
            continue
          }
          const answer = await send(portFor(status), operation.method, sent)
          state.fault = undefined
          t.equal(answer.status, status, `${status}: ${answer.text.slice(0, 300)}`)
          t.same(judge(operation, answer), [], `${status}`)
          // The same code reports the failures of all collections, so one of them is enough.
          if (status === 304 || status === 406 || status >= 500 || (status >= 400 && tag !== 'products'))
            continue
          const again = await provoke(status, await fine())
          const vendor = { ...again?.headers, accept: `application/vnd.api+json;version=${version}` }
          const other =
            again && (await send(portFor(status), operation.method, { ...again, headers: vendor }))
          if (other) t.same(judge(operation, other), [], `${status} as the vendor type too`)
        }
        if (operation.declared.requestBody) {
          const { body } = await fine()
          for (const { schema } of Object.values<Json>(operation.declared.requestBody.content)) {
            t.same(faults(schema, body), [], 'what is taken is declared')
          }
        }
      })

      if (verb !== 'list' && verb !== 'read') continue
      await t.test(`${operation.operationId} of version ${version}, with fields and include`, async (t) => {
        const { path } = await fine()
        const items = new Map<string, string[]>(
          operation.declared.parameters.map(({ name, schema }: Json) => [name, schema.items?.enum ?? []]),
        )
        const fields = items.get('fields') ?? []
        const relations = items.get('include') ?? []
        const queries = [
          ...fields.map((name) => `fields=${name}`),
          `fields=${fields.join()}`,
          ...relations.map((name) => `include=${name}`),
          ...relations.map((name) => `include=${name}&fields=id`),
          ...(relations.length > 0 ? [`include=${relations.slice(0, 3).join()}`] : []),
          ...(verb === 'list'
            ? ['page=1', 'page=7&limit=1', 'limit=1', 'cursor=', 'search=a', 'created_after=2020-01-01']
            : []),
          ...(items.get('sort') ?? []).map((name) => `sort=${name}&limit=3`),
        ]
        for (const query of queries) {
          const answer = await send(port, 'GET', { path: `${path}?${query}`, headers: key })
          t.equal(answer.status, 200, query)
          const judgeAnswer = /(^|&)fields=/.test(query) ? judgeNarrowed : judge
          t.same(judgeAnswer(operation, answer), [], query)
        }
      })
    }

    await t.test(`credentials in version ${version}`, async (t) => {
      const ada = await app.person('member')
      const headers = { authorization: `Bearer ${ada.token}` }
      const body = { name: 'Export', scopes: ['products:read'] }
      const made = (await ada.bearer.post(`${api}/api-keys`, body)).body.data
      const credentials = { email: `eve${version}@example.com`, password: 'a good long secret' }
      await admin.post('/users', { name: 'Eve', ...credentials })
      const grant = { grant_type: 'password', ...credentials }
      await app.app.events.assignAll()
      const [event] = getEvents(await admin.get(`${api}/events`))
      const expired = await admin.get(`${api}/events?sort=position&limit=1`)
      await guarded.run('update event_feed set removed_position = last_position')
      const calls: [string, string, number, unknown?][] = [
        ['listEvents', '/events', 200],
        ['listEvents', '/events?sort=position&type=users.*', 200],
        ['listEvents', '/events?page=1', 400],
        ['listEvents', `/events?sort=position&cursor=${expired.body.pagination.cursor}`, 410],
        ['getEvent', `/events/${event.id}`, 200],
        ['getEvent', `/events/${UNKNOWN_ID}`, 404],
        ['createApiKey', '/api-keys', 201, body],
        ['createApiKey', '/api-keys', 422, { ...body, scopes: ['all'] }],
        ['listApiKeys', '/api-keys', 200],
        ['getApiKey', `/api-keys/${made.id}`, 200],
        ['updateApiKey', `/api-keys/${made.id}`, 200, { name: 'Import' }],
        ['deleteApiKey', `/api-keys/${made.id}`, 204],
        ['deleteApiKey', `/api-keys/${made.id}`, 404],
        ['listSessions', '/sessions', 200],
        ['getSession', `/sessions/${ada.sessionId}`, 200],
        ['createToken', '/tokens', 201, grant],
        ['createToken', '/tokens', 401, { ...grant, password: 'wrong' }],
        ['createToken', '/tokens', 422, {}],
        ['deleteSession', `/sessions/${ada.sessionId}`, 204],
      ]
      const beyond = await send(limited.port, 'POST', { path: `${api}/tokens`, body: grant })
      t.equal(beyond.status, version === 1 ? 201 : 429, 'one sign-in a minute')
      calls.push(['createToken', '/tokens', 429, grant])
      if (version === 2)
        calls.push(['createToken', '/tokens', 409, { data: { type: 'others', attributes: {} } }])
      for (const [id, path, status, sent] of calls) {
        const operation = operations.find(({ operationId }) => operationId === id)
        if (!operation) throw new Error(`${id} is not declared`)
        const own = id === 'createToken' ? {} : headers
        const answer = await send(portFor(status), operation.method, {
          path: `${api}${path}`,
          headers: id.endsWith('Event') || id.endsWith('Events') ? key : own,
          body: sent,
        })
        t.equal(answer.status, status, `${id} ${answer.text.slice(0, 200)}`)
        t.same(judge(operation, answer), [], id)
      }
    })

    await t.test(`health in version ${version}`, async (t) => {
      for (const operation of operations.filter(({ path }) => !path.startsWith('/api/'))) {
        for (const status of Object.keys(operation.declared.responses).map(Number)) {
          if (status === 408) continue
          if (status === 503) state.fault = new DatabaseUnavailable('a fault of the test')
          const headers: Record<string, string> = status === 431 ? { 'x-long': 'x'.repeat(17_000) } : {}
          const answer = await send(port, 'GET', { path: operation.path, headers })
          state.fault = undefined
          t.equal(answer.status, status)
          t.same(judge(operation, answer), [])
        }
      }
    })

    await t.test(`requests rejected by the parser in version ${version}`, async (t) => {
      const create = operations.find(({ operationId }) => operationId === 'createProduct')
      if (!create) throw new Error('Products can be created')
      const line = `POST ${api}/products`
      const post = (fields: string, rest = '', target = line) =>
        `${target} HTTP/1.1\r\nHost: a\r\nX-API-Key: ${ADMIN_KEY}\r\nContent-Type: application/json\r\n${fields}\r\n${rest}`
      const chunks = 'Transfer-Encoding: chunked\r\n'
      const refused: [sentence: string, status: number, bytes: string][] = [
        ['a header without a name', 400, post(': value\r\n')],
        ['a chunk without a size', 400, post(chunks, 'zz\r\n')],
        ['two keys', 400, post(`X-API-Key: ${ADMIN_KEY}\r\n`)],
        ['a path that cannot be decoded', 400, post('', '', `${line}/%zz`)],
        ['a long chunk extension', 413, post(chunks, `2;${'a'.repeat(20_480)}\r\n{}\r\n0\r\n\r\n`)],
        ['a query of 60 KiB', 414, post('Content-Length: 0\r\n', '', `${line}?a=${'a'.repeat(61_440)}`)],
        ['headers of 100 KiB', 431, post(`X-Long: ${'a'.repeat(102_400)}\r\n`)],
      ]
      for (const accept of ['application/json', `application/vnd.api+json;version=${version}`]) {
        for (const [sentence, status, bytes] of refused) {
          const sent = bytes.replace('Host: a', `Host: a\r\nAccept: ${accept}\r\nConnection: close`)
          const [reply] = (await sendRaw(port, sent)).replies
          t.equal(reply?.status, status, sentence)
          t.same(reply && judge(create, reply), [], sentence)
        }
        state.delay = 60_000
        const overloaded = await send(port, 'POST', { path: `${api}/products`, headers: { ...key, accept } })
        state.delay = 0
        t.equal(overloaded.status, 503)
        t.ok(overloaded.headers['x-ratelimit-limit'])
        t.same(judge(create, overloaded), [], 'under overload')
      }
    })

    await t.test(`a request that is too slow in version ${version}`, async (t) => {
      const [reply] = (await slow).replies
      const create = operations.find(({ operationId }) => operationId === 'createProduct')
      t.equal(reply?.status, 408)
      t.same(reply && create && judge(create, reply), [])
    })
  }
})
