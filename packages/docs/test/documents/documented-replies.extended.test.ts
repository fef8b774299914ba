/**
 * Every error that the OpenAPI documents declare occurs as declared: all of version 1, and of version 2 the conflicts, the
 * violations and every third of the others, other ones of each operation. request-examples.test.ts checks the successes.
 */
import t, { type Test } from 'tap'
import { createDatabase } from '../../../database/src/client/database.ts'
import { DatabaseUnavailable } from '../../../database/src/client/errors.ts'
import {
  ADMIN_KEY,
  type CallOptions,
  type Client,
  createClient,
  type Json,
  testApp,
  UNKNOWN_ID,
} from '../../../testing/helpers/app.ts'
import { testDatabase } from '../../../testing/helpers/database.ts'
import { getDefinition } from '../../../testing/helpers/definitions.ts'
import { createOwnedRows } from '../../../testing/helpers/example-rows.ts'
import { sendRaw } from '../../../testing/helpers/network.ts'
import { intercept } from '../../../testing/helpers/statements.ts'
import { createClock } from '../../../testing/helpers/time.ts'
import { createReplyChecker, type Operation } from '../../../testing/src/reply-checker.ts'

interface Sent extends CallOptions {
  path: string
  headers: Record<string, string>
}

const grant = { grant_type: 'password', email: 'ada@example.com', password: 'a good long secret' }
const completion = { token: 'wrong', password: 'another good long secret' }
/** A body of version 2 with the type of another resource. */
const ofOthers = { data: { type: 'others', attributes: {} } }
/** Collections with operations of their own, or that are managed with a token; test/webhooks has those of webhooks. */
const OTHERS =
  'batches sessions api-keys tokens password-resets email-verifications events webhook-endpoints deliveries replays'

/** The errors that an operation names. */
const MAX_STATUSES = 8
/** The statuses that not every operation of a collection has. */
const DEPENDING = [404, 409, 412, 422]

/** Creates rows, and returns what conflicts with them: members of a creation or a change, and a row to delete. */
async function createConflicts(admin: Client) {
  const create = async (path: string, body: Json) => {
    const { text, ...reply } = await admin.post(`/v1${path}`, body)
    if (reply.status !== 201) throw new Error(text)
    return reply.body.data.id as string
  }
  const { email, password } = grant
  const user_id = await create('/users', { name: 'Ada', email, password })
  await create('/user-profiles', { user_id })
  const tea = { sku: 'TAKEN', name: 'Tea', price_amount: 1, stock: 9, status: 'active' }
  const product_id = await create('/products', tea)
  const order = await create('/orders', { user_id, items: [{ product_id, quantity: 1 }] })
  await admin.patch(`/v1/orders/${order}`, { status: 'paid' })
  const conflicts: Record<string, { create: Json; change?: Json; remove?: string }> = {
    users: { create: { email }, change: { email }, remove: user_id },
    'user-profiles': { create: { user_id } },
    products: { create: { sku: tea.sku }, change: { sku: tea.sku }, remove: product_id },
    orders: {
      create: { items: [{ product_id, quantity: 10 }] },
      change: { status: 'completed' },
      remove: order,
    },
  }
  return conflicts
}

t.test('every declared error of every operation conforms to its document', async (t) => {
  const database = await testDatabase(t)
  let fault: Error | undefined
  let waitMs = 0
  const fail = () => {
    if (fault) throw fault
  }
  const guarded = createDatabase({
    ...intercept(database, fail).$client,
    async ping(timeoutMs) {
      fail()
      await database.ping(timeoutMs)
    },
    estimateWait: () => waitMs || database.estimateWait(),
  })
  // The bugs that it provokes are not printed.
  const app = await testApp(t, { LOG_LEVEL: 'silent' }, { database: guarded })
  const { admin, adminId, port } = app
  const strict = await testApp(t, { REQUIRE_IF_MATCH: 'true' }, { database: guarded })
  // The windows of the limits do not end while the test runs.
  const limits = { RATE_LIMIT: '1', RATE_LIMIT_TOKENS: '1' }
  const limited = await testApp(t, limits, { database: guarded, now: createClock().now })
  const conflicts = await createConflicts(admin)
  t.equal((await limited.admin.get('/products')).status, 200, 'and no more')
  t.equal((await limited.anybody.post('/tokens', grant)).status, 201, 'and no more')
  const key = { 'x-api-key': ADMIN_KEY }
  const withoutScope = { 'x-api-key': (await app.person('member', ['sessions:read'])).key }
  const bearer = { authorization: `Bearer ${(await app.person('admin')).token}` }
  const ownedRows = createOwnedRows(guarded)
  const head = `HTTP/1.1\r\nHost: a\r\nX-API-Key: ${ADMIN_KEY}\r\nContent-Type: application/json\r\n`
  // One slow request stands for all operations. No other waits while it may take so little time.
  const { server } = app.app
  const { requestTimeout } = server
  server.requestTimeout = 500
  const [late] = (await sendRaw(port, `POST /v1/products ${head}Content-Length: 9\r\n\r\n{`)).replies
  server.requestTimeout = requestTimeout

  for (const version of [1, 2]) {
    const { operations, judge } = createReplyChecker(
      (await app.anybody.get(`/openapi/v${version}.json`)).body,
    )
    const accepts = ['application/json', `application/vnd.api+json;version=${version}`]

    /** Checks that a request gets the status, in the form that the document declares. */
    async function check(t: Test, operation: Operation, status: number, { path, ...sent }: Sent) {
      const { base } = { 428: strict, 429: limited }[status] ?? app
      const reply = await createClient(base, {}).call(operation.method, path, sent)
      const message = `${operation.operationId} ${status} ${sent.headers.accept ?? ''}`
      t.equal(reply.status, status, `${message}: ${reply.text.slice(0, 300)}`)
      t.same(judge(operation, { ...reply, headers: Object.fromEntries(reply.headers) }), [], message)
      return reply
    }

    for (const [position, operation] of operations.entries()) {
      const { method, path: template, declared } = operation
      const tag: string = declared.tags[0]
      if (OTHERS.split(' ').includes(tag)) continue
      const isHealth = tag === 'health'
      const isAggregate = template.endsWith('/aggregates')
      const list = isHealth ? template : await ownedRows.getListPath(tag, adminId)
      const collection = `/api/v${version}${list}`
      if (!isHealth && getDefinition(tag).parent) await ownedRows.make(tag, adminId)
      const wrap = (attributes: Json, id?: string) =>
        version === 1 ? attributes : { data: { type: tag, ...(id && { id }), attributes } }

      /** Returns a request that would succeed. */
      const createRequest = async (): Promise<Sent> => {
        if (isHealth) return { path: template, headers: {} }
        const isList = !template.endsWith('{id}')
        if (isAggregate) return { path: `${collection}/aggregates?measures=count`, headers: key }
        if (isList && method === 'GET') return { path: collection, headers: key }
        const body = wrap(await ownedRows.creation(tag, adminId))
        if (isList) return { path: collection, headers: key, body }
        const { data } = (await admin.post(collection, body)).body
        const change = wrap(await ownedRows.change(tag, adminId), data.id)
        const bodies: Record<string, unknown> = { PUT: wrap(data.attributes ?? data, data.id), PATCH: change }
        return { path: `${collection}/${data.id}`, headers: key, body: bodies[method] }
      }

      const createConflict = (sent: Sent): Sent | undefined => {
        const { create, change, remove } = conflicts[tag] ?? {}
        if (method === 'DELETE') return remove ? { ...sent, path: `${collection}/${remove}` } : undefined
        if (version === 2) return { ...sent, body: ofOthers }
        const members = method === 'POST' ? create : change
        const base = method === 'PATCH' ? {} : sent.body
        return members && { ...sent, body: Object.assign({}, base, members) }
      }

      const withHeaders = (headers: Record<string, string>) => (sent: Sent) => ({
        ...sent,
        headers: { ...sent.headers, ...headers },
      })
      /** Changes the request so that it gets the status; undefined if this collection has no such conflict. */
      const provocations: Readonly<Record<number, (sent: Sent) => Sent | undefined>> = {
        304: withHeaders({ 'if-none-match': '*' }),
        400: (sent) => ({ ...sent, path: `${sent.path}?bogus=1` }),
        401: ({ headers: { 'x-api-key': _, ...headers }, ...sent }) => ({ ...sent, headers }),
        403: withHeaders(withoutScope),
        404: (sent) => {
          if (template.endsWith('{id}/restores'))
            return { ...sent, path: `${sent.path.split('/').slice(0, -2).join('/')}/${UNKNOWN_ID}/restores` }
          if (!template.endsWith('{id}'))
            return { ...sent, path: `/api/v${version}${ownedRows.getMissingList(tag)}` }
          return JSON.parse(JSON.stringify(sent).replaceAll(sent.path.slice(-UNKNOWN_ID.length), UNKNOWN_ID))
        },
        406: withHeaders({ accept: 'text/html' }),
        409: createConflict,
        412: withHeaders({ 'if-match': '"999-x"' }),
        413: (sent) => ({ ...sent, body: JSON.stringify('x'.repeat(1 << 20)) }),
        414: (sent) => ({ ...sent, path: `${sent.path}?search=${'x'.repeat(9_000)}` }),
        415: withHeaders({ 'content-type': 'text/plain' }),
        422: (sent) => ({ ...sent, body: { nope: 1 } }),
        431: withHeaders({ 'x-long': 'x'.repeat(17_000) }),
        ...Object.fromEntries([428, 429, 500, 503].map((status) => [status, (sent: Sent) => sent])),
      }
      const faults: Readonly<Record<number, Error>> = {
        500: new Error('Bug'),
        503: new DatabaseUnavailable('Down'),
      }

      await t.test(`${operation.operationId} of version ${version}`, async (t) => {
        const named = Object.keys(declared.responses).filter((each) => each >= '300' && each !== 'default')
        t.ok(named.filter((each) => each >= '400').length <= MAX_STATUSES, 'it names few statuses')
        const hasBody = declared.requestBody !== undefined
        // Those of `default`.
        const others = isHealth ? [431] : [406, 414, 431, 500, 503, ...(hasBody ? [413, 415] : [])]
        const isChangeOfRow = template.endsWith('{id}') && method !== 'GET'
        const all = [...named.map(Number), ...others, ...(isChangeOfRow ? [428] : [])]
        // What is 422 of an aggregate depends on many rows: packages/resources/test/lists/aggregates.test.ts.
        const statuses = [...new Set(all)]
          .filter((each) => !isAggregate || each !== 422)
          .filter((each, i) => version === 1 || [409, 422].includes(each) || (position + i) % 3 === 0)
        const request = await createRequest()
        for (const status of isHealth ? [] : DEPENDING) {
          const sent = provocations[status]?.({ ...request, headers: { ...request.headers } })
          if (named.includes(String(status)) || !sent) continue
          const reply = await createClient(app.base, {}).call(method, sent.path, sent)
          t.not(reply.status, status, `${operation.operationId} does not have the status ${status}`)
        }
        for (const status of statuses) {
          // The same code reports the errors of all collections, so one of them is enough for the vendor's type.
          for (const accept of tag === 'products' && status !== 406 ? accepts : ['application/json']) {
            const sent = provocations[status]?.({ ...request, headers: { accept, ...request.headers } })
            fault = faults[status]
            if (sent) await check(t, operation, status, sent)
            // Two requests at the same time: idempotency.test.ts and locks.test.ts of packages/resources.
            else t.equal(status, 409, 'each other status can be provoked')
            fault = undefined
          }
        }
      })
    }

    const find = (id: string) => {
      const operation = operations.find(({ operationId }) => operationId === id)
      if (!operation) throw new Error(`${id} is not declared`)
      return operation
    }

    await t.test(`credentials and events in version ${version}`, async (t) => {
      await app.app.events.assignAll()
      const { cursor } = (await admin.get('/events?sort=position&limit=1')).body.pagination
      await guarded.run('update event_feed set removed_position = last_position')
      const [reset, verification] = ['/password-resets', '/email-verifications']
      const email = 'new@example.com'
      const calls: [id: string, path: string, status: number, body?: unknown][] = [
        ['listEvents', '/events?page=1', 400],
        ['listEvents', `/events?sort=position&cursor=${cursor}`, 410],
        ['getEvent', `/events/${UNKNOWN_ID}`, 404],
        ['createApiKey', '/api-keys', 422, { name: 'Export', scopes: ['all'] }],
        ['deleteApiKey', `/api-keys/${UNKNOWN_ID}`, 404],
        ['createToken', '/tokens', 401, { ...grant, password: 'wrong' }],
        ['createToken', '/tokens', 422, {}],
        ['createToken', '/tokens', 429, grant],
        ['createPasswordReset', reset, 413, 'x'.repeat(17_000)],
        ['createPasswordReset', reset, 422, {}],
        ['completePasswordReset', `${reset}/${UNKNOWN_ID}`, 403, completion],
        ['completePasswordReset', `${reset}/1`, 404, completion],
        ['completePasswordReset', `${reset}/${UNKNOWN_ID}`, 422, {}],
        ['createEmailVerification', verification, 422, { email }],
        ['createEmailVerification', verification, 403, { email, current_password: 'x' }],
        ['completeEmailVerification', `${verification}/${UNKNOWN_ID}`, 403, { token: 'wrong' }],
        ['completeEmailVerification', `${verification}/1`, 404, { token: 'wrong' }],
        ['completeEmailVerification', `${verification}/${UNKNOWN_ID}`, 422, {}],
        ['createToken', '/tokens', 409, ofOthers],
        ['createPasswordReset', reset, 409, ofOthers],
        ['completePasswordReset', `${reset}/${UNKNOWN_ID}`, 409, ofOthers],
        ['createEmailVerification', verification, 409, ofOthers],
      ]
      for (const [id, path, status, body] of calls) {
        // Version 1 has no types of resources.
        if (version === 1 && status === 409) continue
        const headers = /Token|Reset|^complete/.test(id) ? {} : bearer
        await check(t, find(id), status, { path: `/api/v${version}${path}`, headers, body })
      }
    })

    await t.test(`requests rejected before the routes in version ${version}`, async (t) => {
      const operation = find('createProduct')
      const path = `/api/v${version}/products`
      const post = (rest: string, target = path) => `POST ${target} ${head}${rest}`
      const chunked = 'Transfer-Encoding: chunked\r\n\r\n'
      const long = (length: number) => post('\r\n', `${path}?a=${'a'.repeat(length)}`)
      const refused: [name: string, status: number, bytes: string][] = [
        ['a header without a name', 400, post(': value\r\n\r\n')],
        ['two keys', 400, post(`X-API-Key: ${ADMIN_KEY}\r\n\r\n`)],
        ['a long chunk extension', 413, post(`${chunked}2;${'a'.repeat(20_480)}\r\n{}\r\n0\r\n\r\n`)],
        ['a query of 9 KiB', 414, long(9_216)],
        ['headers of 100 KiB', 431, post(`X-Long: ${'a'.repeat(102_400)}\r\n\r\n`)],
      ]
      for (const accept of accepts) {
        for (const [name, status, bytes] of refused) {
          const sent = bytes.replace('Host: a', `Host: a\r\nAccept: ${accept}\r\nConnection: close`)
          const [reply] = (await sendRaw(port, sent)).replies
          t.equal(reply?.status, status, name)
          t.same(reply && judge(operation, reply), [], name)
        }
        waitMs = Number.POSITIVE_INFINITY
        const { headers } = await check(t, operation, 503, { path, headers: { ...key, accept } })
        waitMs = 0
        t.ok(headers.get('x-ratelimit-limit'), 'under overload')
        t.equal(headers.get('link'), '</docs/#SERVICE_UNAVAILABLE>; rel="help"')
      }
      t.equal(late?.status, 408)
      t.same(late && judge(operation, late), [], 'a request that is too slow')
    })
  }
})
