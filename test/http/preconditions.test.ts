/** Conditional requests follow RFC 9110: entity tags, dates, 304 and 412. */
import t, { type Test } from 'tap'
import { v7 as uuid } from 'uuid'
import { parseHttpDate } from '../../lib/http-date.ts'
import { ADMIN_KEY, type Reply, testApp } from '../helpers/app.ts'
import { sendRaw } from '../helpers/raw-requests.ts'
import { createSharedDatabase } from '../helpers/shared-database.ts'

const database = await createSharedDatabase(t)
const { admin, adminId, port } = await testApp(t, {}, { database })
const strict = (await testApp(t, { REQUIRE_IF_MATCH: 'true' }, { database })).admin

const VENDOR = 'application/vnd.api+json'
const WEEKDAYS = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday']
let count = 0

/** A new product: where it stands, and what its creation was answered with. */
async function product(version = 1): Promise<{ path: string; id: string; made: Reply; tag: string }> {
  const made = await admin.post(`/api/v${version}/products`, {
    sku: `C-${++count}`,
    name: 'C',
    price_amount: 1,
  })
  const tag = made.headers.get('etag') ?? ''
  const { id } = made.body.data
  return { path: `/api/v${version}/products/${id}`, id, made, tag }
}

/** As if it had last changed then. */
const changedAt = (id: string, moment: string) =>
  database.run('update products set updated_at = $2 where id = $1', [id, moment])

/** The three forms of an HTTP date. */
function forms(date: Date): string[] {
  const imf = date.toUTCString()
  const [, day, month, year = '', time] = imf.replace(',', '').split(' ')
  return [
    imf,
    `${WEEKDAYS[date.getUTCDay()]}, ${day}-${month}-${year.slice(2)} ${time} GMT`,
    `${imf.slice(0, 3)} ${month} ${String(Number(day)).padStart(2)} ${time} ${year}`,
  ]
}

const NO_DATES = [
  '',
  'yesterday',
  'Hello 2090',
  '2090-01-01',
  '2090-01-01T00:00:00Z',
  '4102444800',
  'Sun, 32 Jan 2090 00:00:00 GMT',
  'Sun, 30 Feb 2090 00:00:00 GMT',
  'Sun, 01 Jan 2090 25:00:00 GMT',
  'Sun, 01 Jan 2090 00:00:00 +0100',
  'Sun, 01 Jan 2090 00:00:00',
  'Sun, 1 Jan 2090 00:00:00 GMT',
  'Sun, 01 Foo 2090 00:00:00 GMT',
]

t.test('an HTTP date is parsed in its three formats, and any other text is invalid', async (t) => {
  for (const form of [
    'Sun, 06 Nov 1994 08:49:37 GMT',
    'Sunday, 06-Nov-94 08:49:37 GMT',
    'Sun Nov  6 08:49:37 1994',
  ]) {
    t.equal(parseHttpDate(form), 784111777, form)
  }
  t.equal(parseHttpDate('Sun Nov 16 08:49:37 1994'), 784975777)
  t.equal(parseHttpDate('Thu, 31 Dec 1998 23:59:60 GMT'), 915148800, 'a leap second is the next one')
  t.equal(parseHttpDate('Mon, 29 Feb 2016 00:00:00 GMT'), 1456704000)
  t.equal(parseHttpDate('Wednesday, 01-Jan-30 00:00:00 GMT'), 1893456000, 'two digits are of the near future')
  for (const text of NO_DATES) t.equal(parseHttpDate(text), undefined, text)
})

t.test('a single resource has a strong tag, a list a weak one', async (t) => {
  const { path, tag } = await product()
  t.match(tag, /^"1-[\w-]+"$/)
  t.equal((await admin.get(path)).headers.get('etag'), tag)
  t.equal((await admin.get(path)).headers.get('etag'), tag, 'although meta.timestamp differs')
  t.match((await admin.get('/products')).headers.get('etag'), /^W\/"[\w-]+"$/)
})

t.test(
  'the tag of a resource depends on version, media type, fields, include and the included rows',
  async (t) => {
    const { id } = await product()
    const replies = [
      await admin.get(`/api/v1/products/${id}`),
      await admin.get(`/api/v2/products/${id}`),
      await admin.get(`/api/v1/products/${id}`, { accept: VENDOR }),
      await admin.get(`/api/v2/products/${id}`, { accept: VENDOR }),
      await admin.get(`/api/v1/products/${id}?fields=name`),
      await admin.get(`/api/v1/products/${id}?fields=sku`),
    ]
    t.equal(new Set(replies.map(({ headers }) => headers.get('etag'))).size, replies.length)
    for (const { headers } of replies) t.match(headers.get('etag'), /^"1-/)
    const same = await admin.get(`/products/${id}`)
    t.equal(same.headers.get('etag'), replies[0]?.headers.get('etag'), 'the form of address does not')

    const tagOf = async (path: string) => (await admin.get(path)).headers.get('etag')
    const plain = await tagOf('/users/me')
    const before = await tagOf('/users/me?include=profile')
    t.not(before, plain)
    const profile = (await admin.post('/user-profiles', { bio: 'A' })).body.data
    const after = await tagOf('/users/me?include=profile')
    t.not(after, before, 'an included row is new')
    await admin.patch(`/user-profiles/${profile.id}`, { bio: 'C' })
    t.not(await tagOf('/users/me?include=profile'), after, 'an included row has changed')
    t.equal(await tagOf('/users/me'), plain)
  },
)

t.test('the tag of a list changes with its rows, its page and its fields', async (t) => {
  const { path } = await product()
  const tagOf = async (query = '') => (await admin.get(`/products${query}`)).headers.get('etag')
  const before = await tagOf()
  t.equal(await tagOf(), before)
  await admin.patch(path, { stock: 7 })
  const changed = await tagOf()
  t.not(changed, before)
  await product()
  const added = await tagOf()
  t.not(added, changed)
  const others = await Promise.all([
    tagOf('?limit=1'),
    tagOf('?page=1'),
    tagOf('?fields=id'),
    tagOf('?fields=sku'),
  ])
  t.equal(new Set([added, ...others]).size, 5)
})

t.test('Last-Modified is sent for a single resource without include, in whole seconds', async (t) => {
  const { path, id, made } = await product()
  const expected = new Date(Math.floor(Date.parse(made.body.data.updated_at) / 1000) * 1000).toUTCString()
  t.equal((await admin.get(path)).headers.get('last-modified'), expected)
  await changedAt(id, '2020-02-03T04:05:06.999999Z')
  t.equal((await admin.get(path)).headers.get('last-modified'), 'Mon, 03 Feb 2020 04:05:06 GMT')
  t.equal((await admin.get('/users/me?include=profile')).headers.get('last-modified'), null)
  t.equal((await admin.get('/products')).headers.get('last-modified'), null)
})

t.test('If-None-Match returns 304 for a strong tag, a weak tag, one of several tags and *', async (t) => {
  for (const version of [1, 2]) {
    const { path, tag } = await product(version)
    for (const sent of [
      tag,
      `W/${tag}`,
      `"a", ${tag}`,
      `${tag},"b"`,
      `W/"a" , W/${tag}`,
      '*',
      ' * ',
      `garbage ${tag}`,
    ]) {
      for (const method of ['GET', 'HEAD']) {
        const { status, text } = await admin.call(method, path, { headers: { 'if-none-match': sent } })
        t.equal(status, 304, `${method} ${sent}`)
        t.equal(text, '')
      }
    }
    for (const sent of ['"a"', tag.slice(1, -1), 'garbage', '', '"*"', tag.replace('1-', '2-')]) {
      t.equal((await admin.get(path, { 'if-none-match': sent })).status, 200, sent)
    }
    await admin.patch(path, { stock: 1 })
    t.equal((await admin.get(path, { 'if-none-match': tag })).status, 200, 'after a change')
  }
})

t.test('If-None-Match on lists', async (t) => {
  for (const path of ['/api/v1/products?limit=2', '/api/v2/products?page=1', '/users?include=profile']) {
    const tag = (await admin.get(path)).headers.get('etag') ?? ''
    for (const sent of [tag, tag.replace('W/', ''), `"x", ${tag}`, '*']) {
      t.equal((await admin.get(path, { 'if-none-match': sent })).status, 304, `${path} ${sent}`)
    }
    t.equal((await admin.get(path, { 'if-none-match': '"x"' })).status, 200)
    const later = { 'if-modified-since': 'Fri, 01 Jan 2090 00:00:00 GMT' }
    t.equal((await admin.get(path, later)).status, 200, 'a list has no date')
  }
})

t.test('a 304 has the headers of the 200', async (t) => {
  const { path } = await product()
  for (const where of [path, '/products?limit=1']) {
    const ok = await admin.get(where)
    const fresh = await admin.get(where, { 'if-none-match': '*' })
    t.equal(fresh.status, 304)
    t.equal(fresh.headers.get('cache-control'), 'private, no-cache')
    for (const name of ['etag', 'cache-control', 'vary', 'api-version']) {
      t.ok(ok.headers.get(name), name)
      t.equal(fresh.headers.get(name), ok.headers.get(name), name)
    }
    t.match(fresh.headers.get('x-request-id'), /./)
    t.equal(fresh.headers.get('content-type'), null)
  }
})

t.test('If-Modified-Since returns 304 for an unchanged resource, in all three date formats', async (t) => {
  const { path, id } = await product()
  await changedAt(id, '2024-05-06T07:08:09.5Z')
  const second = Date.parse('2024-05-06T07:08:09Z')
  for (const [offset, expected] of [
    [-1_000, 200],
    [0, 304],
    [1_000, 304],
  ] as const) {
    for (const sent of forms(new Date(second + offset))) {
      t.equal((await admin.get(path, { 'if-modified-since': sent })).status, expected, sent)
    }
  }
  for (const sent of NO_DATES)
    t.equal((await admin.get(path, { 'if-modified-since': sent })).status, 200, sent)
})

t.test('If-Modified-Since is ignored with If-None-Match', async (t) => {
  const { path, tag } = await product()
  const later = 'Fri, 01 Jan 2090 00:00:00 GMT'
  const earlier = 'Thu, 01 Jan 1970 00:00:00 GMT'
  t.equal((await admin.get(path, { 'if-modified-since': later, 'if-none-match': '"x"' })).status, 200)
  t.equal((await admin.get(path, { 'if-modified-since': earlier, 'if-none-match': tag })).status, 304)
})

/** What has entity tags and is no collection's. */
const STATIC = [
  '/openapi/v1.json',
  '/openapi/v2.json',
  '/docs/',
  '/docs/js/scalar.js',
  '/.well-known/jwks.json',
]

t.test('no 304 has a Content-Length', async (t) => {
  const { path } = await product()
  for (const where of [path, '/products?limit=1', ...STATIC]) {
    for (const method of ['GET', 'HEAD']) {
      const request = `${method} ${where} HTTP/1.1\r\nHost: a\r\nX-API-Key: ${ADMIN_KEY}\r\nIf-None-Match: *\r\nConnection: close\r\n\r\n`
      const { replies, bytes } = await sendRaw(port, request)
      t.equal(replies[0]?.status, 304, `${method} ${where}`)
      t.equal(replies[0]?.headers['content-length'], undefined, `${method} ${where}`)
      t.match(replies[0]?.headers.etag, /^(W\/)?"[\w-]+"$/)
      t.ok(bytes.toString('latin1').endsWith('\r\n\r\n'), 'no body either')
    }
  }
})

t.test(
  'documents, their page and the key set have tags, and evaluate conditions like resources',
  async (t) => {
    const cases = STATIC.flatMap((path) => ['identity', 'br'].map((encoding) => ({ path, encoding })))
    for (const { path, encoding } of cases) {
      const accepted = { 'accept-encoding': encoding }
      const { headers, text } = await admin.get(path, accepted)
      const tag = headers.get('etag') ?? ''
      t.match(tag, /^"[\w-]{20,}"$/, path)
      t.equal((await admin.get(path, accepted)).headers.get('etag'), tag)
      const isCompressed = headers.has('content-encoding')
      if (!isCompressed) t.equal(Number(headers.get('content-length')), Buffer.byteLength(text))
      const conditions: [Record<string, string>, number][] = [
        [{ 'if-none-match': tag }, 304],
        [{ 'if-none-match': `"x", W/${tag}` }, 304],
        [{ 'if-none-match': '"x"' }, 200],
        [{ 'if-match': tag }, 200],
        [{ 'if-match': '"x"' }, 412],
        [{ 'if-match': `W/${tag}` }, 412],
        [{ 'if-match': tag, 'if-none-match': tag }, 304],
      ]
      for (const [sent, expected] of conditions) {
        const reply = await admin.get(path, { ...accepted, ...sent })
        t.equal(reply.status, expected, `${path} ${JSON.stringify(sent)}`)
        t.equal(reply.headers.get('etag'), tag)
        const isError = reply.status === 412
        t.equal(reply.headers.get('cache-control'), isError ? 'no-store' : headers.get('cache-control'))
        if (isError) t.equal(reply.body.error.code, 'PRECONDITION_FAILED')
        if (isError) t.notOk(reply.headers.has('content-encoding'), 'an error is not compressed')
      }
      const broken = await admin.get(path, { ...accepted, 'x-long': 'x'.repeat(17_000) })
      t.equal(broken.status, 431)
      t.equal(broken.headers.get('etag'), null, 'an error has no tag')
    }
  },
)

/** Sends GET and HEAD, checks that both have the same status and tag, and returns the reply to GET. */
async function read(
  t: Test,
  path: string,
  headers: Record<string, string>,
  sentence: string,
): Promise<Reply> {
  const get = await admin.get(path, headers)
  const head = await admin.call('HEAD', path, { headers })
  t.equal(head.status, get.status, `HEAD: ${sentence}`)
  t.equal(head.headers.get('etag'), get.headers.get('etag'), `HEAD: ${sentence}`)
  return get
}

t.test('If-Match on a read returns 412 for another tag, with the strong comparison', async (t) => {
  for (const version of [1, 2]) {
    const { path, tag } = await product(version)
    const narrowed = (await admin.get(`${path}?fields=name`)).headers.get('etag') ?? ''
    const cases: [path: string, sent: string, status: number, current: string][] = [
      [path, tag, 200, tag],
      [path, `"x", ${tag}`, 200, tag],
      [path, '*', 200, tag],
      [path, '"x"', 412, tag],
      [path, `W/${tag}`, 412, tag],
      [path, tag.replace(/"$/, '-gzip"'), 412, tag],
      [path, narrowed, 412, tag],
      [path, tag.slice(1, -1), 412, tag],
      [path, '', 412, tag],
      [`${path}?fields=name`, narrowed, 200, narrowed],
      [`${path}?fields=name`, tag, 412, narrowed],
    ]
    for (const [where, sent, status, current] of cases) {
      const reply = await read(t, where, { 'if-match': sent }, `${where} ${sent}`)
      t.equal(reply.status, status, `${where} ${sent}`)
      t.equal(reply.headers.get('etag'), current)
      if (status !== 412) continue
      t.equal(reply.body.error.code, 'PRECONDITION_FAILED')
      t.equal(reply.headers.get('cache-control'), 'no-store')
      t.equal(reply.headers.get('last-modified'), null)
    }
    await admin.patch(path, { stock: 3 })
    t.equal((await admin.get(path, { 'if-match': tag })).status, 412, 'after a change')
  }
})

t.test('If-Match on a list matches * only, because the tag of a list is weak', async (t) => {
  await product()
  for (const path of ['/api/v1/products?limit=1', '/api/v2/products?page=1', '/users?include=profile']) {
    const tag = (await admin.get(path)).headers.get('etag') ?? ''
    t.equal((await read(t, path, { 'if-match': '*' }, path)).status, 200)
    for (const sent of [tag, tag.replace('W/', ''), '"x"']) {
      const reply = await read(t, path, { 'if-match': sent }, `${path} ${sent}`)
      t.equal(reply.status, 412, `${path} ${sent}`)
      t.equal(reply.headers.get('etag'), tag)
      t.equal(reply.headers.get('link'), null)
    }
    const earlier = { 'if-unmodified-since': 'Thu, 01 Jan 1970 00:00:00 GMT' }
    t.equal((await read(t, path, earlier, path)).status, 200, 'a list has no date')
  }
})

t.test(
  'If-Unmodified-Since on a read returns 412 for a changed resource, in all three date formats',
  async (t) => {
    const { path, id, tag } = await product()
    await changedAt(id, '2024-05-06T07:08:09.5Z')
    const second = Date.parse('2024-05-06T07:08:09Z')
    for (const [offset, expected] of [
      [-1_000, 412],
      [0, 200],
      [1_000, 200],
    ] as const) {
      for (const sent of forms(new Date(second + offset))) {
        const reply = await read(t, path, { 'if-unmodified-since': sent }, sent)
        t.equal(reply.status, expected, sent)
        t.equal(reply.headers.get('etag'), tag)
      }
    }
    for (const sent of NO_DATES) {
      t.equal((await admin.get(path, { 'if-unmodified-since': sent })).status, 200, sent)
    }
    const earlier = 'Thu, 01 Jan 1970 00:00:00 GMT'
    const including = await admin.get('/users/me?include=profile', { 'if-unmodified-since': earlier })
    t.equal(including.status, 200, 'no date with include')
  },
)

t.test('the conditions of a read are evaluated in the order of RFC 9110, section 13.2.2', async (t) => {
  const { path, tag } = await product()
  const later = 'Fri, 01 Jan 2090 00:00:00 GMT'
  const earlier = 'Thu, 01 Jan 1970 00:00:00 GMT'
  const cases: [Record<string, string>, number][] = [
    [{ 'if-match': tag, 'if-unmodified-since': earlier }, 200],
    [{ 'if-match': '"x"', 'if-unmodified-since': later }, 412],
    [{ 'if-match': '"x"', 'if-none-match': tag }, 412],
    [{ 'if-match': tag, 'if-none-match': tag }, 304],
    [{ 'if-match': tag, 'if-modified-since': later }, 304],
    [{ 'if-unmodified-since': earlier, 'if-none-match': tag }, 412],
    [{ 'if-unmodified-since': later, 'if-none-match': tag }, 304],
    [{ 'if-unmodified-since': later, 'if-none-match': '"x"', 'if-modified-since': later }, 200],
    [{ 'if-unmodified-since': later, 'if-modified-since': later }, 304],
  ]
  for (const [sent, expected] of cases) {
    t.equal((await read(t, path, sent, JSON.stringify(sent))).status, expected, JSON.stringify(sent))
  }
  t.equal((await admin.get(`/products/${uuid()}`, { 'if-match': '"x"' })).status, 404, '404 before 412')
  t.equal((await admin.get(`${path}?limit=1`, { 'if-match': '"x"' })).status, 400, '400 before 412')
  t.equal((await strict.get(path)).status, 200, 'REQUIRE_IF_MATCH is for writes alone')
})

t.test('a missing resource is a 404 before its conditions are evaluated', async (t) => {
  t.equal((await admin.get(`/products/${uuid()}`, { 'if-none-match': '*' })).status, 404)
})

/** PUT, PATCH and DELETE on a product of its own, so that each may succeed. */
async function writes(
  headers: (made: {
    tag: string
    path: string
    id: string
  }) => Promise<Record<string, string>> | Record<string, string>,
  client = admin,
) {
  const replies: { method: string; reply: Reply; path: string; tag: string }[] = []
  for (const method of ['PUT', 'PATCH', 'DELETE']) {
    const made = await product()
    const { sku } = made.made.body.data
    const body = { PUT: { sku, name: 'D', price_amount: 2 }, PATCH: { stock: 2 }, DELETE: undefined }[method]
    const reply = await client.call(method, made.path, { body, headers: await headers(made) })
    replies.push({ method, reply, path: made.path, tag: made.tag })
  }
  return replies
}

t.test('If-Match allows a write of an unchanged revision', async (t) => {
  const alike = [
    (tag: string) => tag,
    (tag: string) => `W/${tag}`,
    (tag: string) => `"x", ${tag}`,
    (tag: string) => `${tag} , W/"y"`,
    (tag: string) => tag.replace(/"$/, '-gzip"'),
    () => '*',
  ]
  for (const sent of alike) {
    for (const { method, reply } of await writes(({ tag }) => ({ 'if-match': sent(tag) }))) {
      t.equal(reply.status, method === 'DELETE' ? 204 : 200, `${method} ${sent('"tag"')}`)
    }
  }
})

t.test('If-Match accepts the tag of another representation of the same revision', async (t) => {
  for (const [path, headers] of [
    ['/api/v2/products/', {}],
    ['/api/v1/products/', { accept: VENDOR }],
    ['/api/v1/products/', {}],
  ] as const) {
    const replies = await writes(async ({ id }) => ({
      'if-match': (await admin.get(`${path}${id}?fields=name`, headers)).headers.get('etag') ?? '',
    }))
    for (const { method, reply } of replies) t.equal(reply.status, method === 'DELETE' ? 204 : 200, method)
  }
})

t.test(
  'If-Match returns 412 with the current tag for another revision, an invalid tag and the tag of a list',
  async (t) => {
    const list = (await admin.get('/products')).headers.get('etag') ?? ''
    for (const sent of [
      '"2-abcdefghijkl"',
      '"11-abcdefghijkl"',
      '"1"',
      '"x"',
      'garbage',
      '',
      '"*"',
      '1',
      list,
      '"1-x"',
    ]) {
      for (const { method, reply, path, tag } of await writes(() => ({ 'if-match': sent }))) {
        t.equal(reply.status, 412, `${method} ${sent}`)
        t.equal(reply.body.error.code, 'PRECONDITION_FAILED')
        t.equal(reply.headers.get('etag'), tag)
        t.equal((await admin.get(path)).headers.get('etag'), tag, 'and nothing has changed')
      }
    }
  },
)

t.test('a 412 has the tag of the version and media type that the client requested', async (t) => {
  const { path } = await product(2)
  const accept = { accept: VENDOR }
  const reply = await admin.patch(path, { stock: 1 }, { 'if-match': '"9-abcdefghijkl"', ...accept })
  t.equal(reply.status, 412)
  t.equal(reply.headers.get('etag'), (await admin.get(path, accept)).headers.get('etag'))
})

t.test('replies to POST, PUT and PATCH carry the tag for the next If-Match', async (t) => {
  for (const version of [1, 2]) {
    const { path, tag, made } = await product(version)
    const { sku } = version === 1 ? made.body.data : made.body.data.attributes
    const put = await admin.put(path, { sku, name: 'D', price_amount: 2 }, { 'if-match': tag })
    t.equal(put.status, 200)
    const second = put.headers.get('etag') ?? ''
    t.not(second, tag)
    t.equal((await admin.get(path)).headers.get('etag'), second)
    const patch = await admin.patch(path, { stock: 3 }, { 'if-match': second })
    t.equal(patch.status, 200)
    t.equal((await admin.patch(path, { stock: 4 }, { 'if-match': second })).status, 412, 'of two, one loses')
    t.equal((await admin.delete(path, { 'if-match': patch.headers.get('etag') ?? '' })).status, 204)
  }
})

t.test('of concurrent writes with the same tag one succeeds', async (t) => {
  const { path, tag } = await product()
  const replies = await Promise.all(
    Array.from({ length: 8 }, (_, i) => admin.patch(path, { stock: i + 1 }, { 'if-match': tag })),
  )
  const statuses = replies.map(({ status }) => status).sort()
  t.same(statuses, [200, ...Array.from({ length: 7 }, () => 412)])
})

t.test('a write without effect returns 200 with the same tag and the same updated_at', async (t) => {
  const { path, tag, made } = await product()
  const { id: _, created_at, updated_at, ...members } = made.body.data
  for (const reply of [
    await admin.patch(path, {}),
    await admin.patch(path, { stock: 0, currency: 'USD', description: null }),
    await admin.patch(path, { name: ' C ' }),
    await admin.put(path, members),
    await admin.put(path, made.body.data),
  ]) {
    t.equal(reply.status, 200)
    t.equal(reply.headers.get('etag'), tag)
    t.equal(reply.body.data.updated_at, updated_at)
    t.equal(reply.body.data.created_at, created_at)
  }
  const changed = await admin.patch(path, { stock: 1 })
  t.ok(changed.body.data.updated_at >= updated_at)
  t.not(changed.headers.get('etag'), tag)
})

t.test('If-None-Match on a write returns 412 for * and for the current tag', async (t) => {
  for (const sent of [() => '*', (tag: string) => tag, (tag: string) => `"x", W/${tag}`]) {
    for (const { method, reply, tag } of await writes((made) => ({ 'if-none-match': sent(made.tag) }))) {
      t.equal(reply.status, 412, method)
      t.equal(reply.headers.get('etag'), tag)
    }
  }
  for (const { method, reply } of await writes(() => ({ 'if-none-match': '"x"' }))) {
    t.equal(reply.status, method === 'DELETE' ? 204 : 200)
  }
  t.equal(
    (
      await admin.put(
        `/products/${uuid()}`,
        { sku: 'NEW', name: 'N', price_amount: 1 },
        { 'if-none-match': '*' },
      )
    ).status,
    404,
    'PUT never creates',
  )
})

t.test(
  'If-Unmodified-Since on a write returns 412 for a changed resource, unless If-Match is sent',
  async (t) => {
    const second = Date.parse('2024-05-06T07:08:09Z')
    const at = async ({ id }: { id: string }) => changedAt(id, '2024-05-06T07:08:09.5Z')
    for (const [offset, isLate] of [
      [-1_000, true],
      [0, false],
      [1_000, false],
    ] as const) {
      for (const sent of forms(new Date(second + offset))) {
        const replies = await writes(async (made) => {
          await at(made)
          return { 'if-unmodified-since': sent }
        })
        for (const { method, reply } of replies) {
          t.equal(reply.status, isLate ? 412 : method === 'DELETE' ? 204 : 200, `${method} ${sent}`)
          if (isLate) t.match(reply.headers.get('etag'), /^"1-/)
        }
      }
    }
    for (const sent of NO_DATES) {
      const { path } = await product()
      t.equal((await admin.patch(path, { stock: 1 }, { 'if-unmodified-since': sent })).status, 200, sent)
    }
    const { path, tag } = await product()
    const both = { 'if-unmodified-since': 'Thu, 01 Jan 1970 00:00:00 GMT', 'if-match': tag }
    t.equal((await admin.patch(path, { stock: 1 }, both)).status, 200, 'ignored with If-Match')
  },
)

t.test('the date of a second that has not passed validates neither a read nor a write', async (t) => {
  // In the future, so that the test may take any time.
  const second = Date.parse('2089-05-06T07:08:09Z')
  const during = new Date(second).toUTCString()
  const after = new Date(second + 1000).toUTCString()
  const { path, id } = await product()
  for (const [sent, statuses] of [
    [during, { get: 200, unmodified: 412, patch: 412 }],
    [after, { get: 304, unmodified: 200, patch: 200 }],
  ] as const) {
    await changedAt(id, '2089-05-06T07:08:09.5Z')
    t.same(
      {
        get: (await admin.get(path, { 'if-modified-since': sent })).status,
        unmodified: (await admin.get(path, { 'if-unmodified-since': sent })).status,
        patch: (await admin.patch(path, { name: sent }, { 'if-unmodified-since': sent })).status,
      },
      statuses,
      sent,
    )
  }
  await changedAt(id, new Date(Date.now() - 1000).toISOString())
  const since = (await admin.get(path)).headers.get('last-modified') ?? ''
  t.equal((await admin.get(path, { 'if-modified-since': since })).status, 304, 'a second later')
})

t.test('with REQUIRE_IF_MATCH a write without If-Match is rejected with 428', async (t) => {
  for (const headers of [{}, { 'if-unmodified-since': 'Fri, 01 Jan 2090 00:00:00 GMT' }]) {
    for (const { method, reply } of await writes(() => headers, strict)) {
      t.equal(reply.status, 428, method)
      t.equal(reply.body.error.code, 'PRECONDITION_REQUIRED')
    }
  }
  for (const { method, reply } of await writes(({ tag }) => ({ 'if-match': tag }), strict)) {
    t.equal(reply.status, method === 'DELETE' ? 204 : 200)
  }
  t.equal(
    (await strict.post('/products', { sku: 'POST', name: 'P', price_amount: 1 })).status,
    201,
    'POST needs none',
  )
  t.equal((await strict.get('/products')).status, 200)
  t.equal((await strict.delete(`/products/${uuid()}`)).status, 404, 'an unknown id is reported first')
})

t.test('Cache-Control is private, no-cache on reads and no-store on writes and errors', async (t) => {
  const { path, made } = await product()
  for (const where of [path, '/products', `/users/${adminId}`, '/users/me?include=profile']) {
    t.equal((await admin.get(where)).headers.get('cache-control'), 'private, no-cache', where)
  }
  const written = [
    made,
    await admin.patch(path, { stock: 1 }),
    await admin.delete(path),
    await admin.get(path),
    await admin.get('/nothing'),
    await admin.get('/products?x=1'),
  ]
  for (const { status, headers } of written) t.equal(headers.get('cache-control'), 'no-store', String(status))
})

t.test('no error but 412 has an ETag', async (t) => {
  const { path } = await product()
  for (const reply of [
    await admin.patch(path, { stock: -1 }),
    await admin.get(`${path}?x=1`),
    await admin.get(`/products/${uuid()}`),
  ]) {
    t.ok(reply.status >= 400)
    for (const name of ['etag', 'last-modified', 'location']) t.equal(reply.headers.get(name), null)
  }
})
