/** Conditional requests follow RFC 9110: entity tags, dates, 304 and 412. */
import t, { type Test } from 'tap'
import { v7 as uuid } from 'uuid'
import { parseHttpDate } from '../../lib/http-date.ts'
import { ADMIN_KEY, type Reply, testApp } from '../helpers/app.ts'
import { createSharedDatabase } from '../helpers/database.ts'
import { sendRaw } from '../helpers/network.ts'

const database = await createSharedDatabase(t)
const { admin, adminId, port } = await testApp(t, {}, { database })
const strict = (await testApp(t, { REQUIRE_IF_MATCH: 'true' }, { database })).admin

const VENDOR = 'application/vnd.api+json'
const LATER = 'Fri, 01 Jan 2090 00:00:00 GMT'
const EARLIER = 'Thu, 01 Jan 1970 00:00:00 GMT'
let count = 0

/** A new product: its address, and the reply to its creation. */
async function product(version = 1): Promise<{ path: string; id: string; made: Reply; tag: string }> {
  const body = { sku: `C-${++count}`, name: 'C', price_amount: 1 }
  const made = await admin.post(`/api/v${version}/products`, body)
  const tag = made.headers.get('etag') ?? ''
  const { id } = made.body.data
  return { path: `/api/v${version}/products/${id}`, id, made, tag }
}

const tagOf = async (path: string, headers = {}) => (await admin.get(path, headers)).headers.get('etag') ?? ''

/** Sets the time of the last change. */
const changedAt = (id: string, moment: string) =>
  database.run('update products set updated_at = $2 where id = $1', [id, moment])

const CHANGED_AT = '2024-05-06T07:08:09.5Z'
/** Dates in a header, and whether a row of CHANGED_AT has changed since; undefined if the date is ignored. */
const DATES: [sent: string, isChanged: boolean | undefined][] = [
  ['Mon, 06 May 2024 07:08:08 GMT', true],
  ['Monday, 06-May-24 07:08:08 GMT', true],
  ['Mon May  6 07:08:08 2024', true],
  ['Mon, 06 May 2024 07:08:09 GMT', false],
  ['Monday, 06-May-24 07:08:09 GMT', false],
  ['Mon May  6 07:08:09 2024', false],
  ['Mon, 06 May 2024 07:08:10 GMT', false],
  ['', undefined],
  ['yesterday', undefined],
  ['2090-01-01T00:00:00Z', undefined],
]

t.test('an HTTP date is parsed in its three formats, and any other text is invalid', async (t) => {
  const dates: [text: string, seconds: number][] = [
    ['Sun, 06 Nov 1994 08:49:37 GMT', 784111777],
    ['Sunday, 06-Nov-94 08:49:37 GMT', 784111777],
    ['Sun Nov  6 08:49:37 1994', 784111777],
    ['Sun Nov 16 08:49:37 1994', 784975777],
    ['Thu, 31 Dec 1998 23:59:60 GMT', 915148800], // A leap second is the next second.
    ['Mon, 29 Feb 2016 00:00:00 GMT', 1456704000],
    ['Wednesday, 01-Jan-30 00:00:00 GMT', 1893456000], // Two digits are a year of the near future.
  ]
  for (const [text, seconds] of dates) t.equal(parseHttpDate(text), seconds, text)
  for (const text of [
    ...['', 'yesterday', 'Hello 2090', '2090-01-01', '2090-01-01T00:00:00Z', '4102444800'],
    ...['Sun, 32 Jan 2090 00:00:00 GMT', 'Sun, 30 Feb 2090 00:00:00 GMT', 'Sun, 01 Jan 2090 25:00:00 GMT'],
    ...['Sun, 01 Jan 2090 00:00:00 +0100', 'Sun, 01 Jan 2090 00:00:00', 'Sun, 1 Jan 2090 00:00:00 GMT'],
    'Sun, 01 Foo 2090 00:00:00 GMT',
  ])
    t.equal(parseHttpDate(text), undefined, text)
})

t.test('a resource has a strong tag, which depends on version, media type and fields', async (t) => {
  const { id, path, tag } = await product()
  t.match(tag, /^"1-[\w-]+"$/)
  t.same([await tagOf(path), await tagOf(path)], [tag, tag], 'although meta.timestamp differs')
  const tags = [
    await tagOf(`/api/v1/products/${id}`),
    await tagOf(`/api/v2/products/${id}`),
    await tagOf(`/api/v1/products/${id}`, { accept: VENDOR }),
    await tagOf(`/api/v2/products/${id}`, { accept: VENDOR }),
    await tagOf(`/api/v1/products/${id}?fields=name`),
    await tagOf(`/api/v1/products/${id}?fields=sku`),
  ]
  t.equal(new Set(tags).size, tags.length)
  for (const tag of tags) t.match(tag, /^"1-/)
  t.equal(await tagOf(`/products/${id}`), tags[0], 'the form of the path does not matter')
})

t.test('a list has a weak tag, which changes with its rows, its page and its fields', async (t) => {
  const { path } = await product()
  const before = await tagOf('/products')
  t.match(before, /^W\/"[\w-]+"$/)
  t.equal(await tagOf('/products'), before)
  await admin.patch(path, { stock: 7 })
  const changed = await tagOf('/products')
  await product()
  const tags = [before, changed, await tagOf('/products')]
  for (const query of ['limit=1', 'page=1', 'fields=id', 'fields=sku'])
    tags.push(await tagOf(`/products?${query}`))
  t.equal(new Set(tags).size, 7)
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
    for (const sent of [tag, `W/${tag}`, `"a", ${tag}`, `${tag},"b"`, `W/"a" , W/${tag}`, '*', ' * ']) {
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

/** Resources without a row, which have entity tags as well. */
const STATIC = ['/openapi/v1.json', '/docs/', '/docs/js/scalar.js', '/.well-known/jwks.json']

/** What servers append to a tag when they compress the response: Apache, Caddy, Jetty, LiteSpeed, two in a row. */
const SUFFIXES = [
  '-gzip',
  '-br',
  '-zstd',
  '--gzip',
  '--br',
  '--deflate',
  ';gzip',
  ';gz',
  ';br',
  ':gzip',
  '-gzip--gzip',
]

const append = (tag: string, suffix: string) => tag.replace(/"$/, `${suffix}"`)

t.test('If-None-Match ignores what servers append to the tag of a compressed response', async (t) => {
  const { path } = await product()
  for (const where of [path, '/products?limit=1', ...STATIC]) {
    const tag = await tagOf(where)
    const zipped = append(tag, '-gzip')
    const values = [`W/${zipped.replace('W/', '')}`, `"x", ${zipped} , "y"`]
    for (const value of [...SUFFIXES.map((suffix) => append(tag, suffix)), ...values]) {
      const reply = await read(t, where, { 'if-none-match': value })
      t.equal(reply.status, 304, `${where} ${value}`)
      t.equal(reply.headers.get('etag'), tag)
    }
    for (const suffix of ['-x', 'gzip', '-gzip-x']) {
      t.equal((await read(t, where, { 'if-none-match': append(tag, suffix) })).status, 200, suffix)
    }
  }
  const tag = await tagOf(path)
  await admin.patch(path, { stock: 9 })
  t.equal((await admin.get(path, { 'if-none-match': append(tag, '-gzip') })).status, 200, 'after a change')
})

t.test('a list has a weak tag and no date: of If-Match, only * holds', async (t) => {
  for (const path of ['/api/v1/products?limit=2', '/api/v2/products?page=1', '/users?include=profile']) {
    const tag = await tagOf(path)
    const strong = tag.replace('W/', '')
    for (const [name, sent, status] of [
      ...[tag, strong, `"x", ${tag}`, '*'].map((each) => ['if-none-match', each, 304] as const),
      ...[tag, strong, '"x"'].map((each) => ['if-match', each, 412] as const),
      ['if-match', '*', 200],
      ['if-none-match', '"x"', 200],
      ['if-modified-since', LATER, 200],
      ['if-unmodified-since', EARLIER, 200],
    ] as const) {
      const reply = await admin.get(path, { [name]: sent })
      t.equal(reply.status, status, `${path} ${name} ${sent}`)
      t.equal(reply.headers.get('etag'), tag)
    }
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

t.test('If-Modified-Since returns 304 for an unchanged resource', async (t) => {
  const { path, id } = await product()
  await changedAt(id, CHANGED_AT)
  for (const [sent, isChanged] of DATES) {
    const { status } = await admin.get(path, { 'if-modified-since': sent })
    t.equal(status, isChanged === false ? 304 : 200, sent)
  }
})

t.test('no 304 has a Content-Length', async (t) => {
  const { path } = await product()
  for (const where of [path, '/products?limit=1', ...STATIC]) {
    for (const method of ['GET', 'HEAD']) {
      const request = `${method} ${where} HTTP/1.1\r\nHost: a\r\nX-API-Key: ${ADMIN_KEY}\r\nIf-None-Match: *\r\nConnection: close\r\n\r\n`
      const { replies, bytes } = await sendRaw(port, request)
      t.match(replies[0], { status: 304, headers: { etag: /^(W\/)?"[\w-]+"$/ } }, `${method} ${where}`)
      t.notHas(replies[0]?.headers, 'content-length')
      t.ok(bytes.toString('latin1').endsWith('\r\n\r\n'), 'no body either')
    }
  }
})

t.test('documents, their page and the key set have tags and evaluate conditions', async (t) => {
  const cases = STATIC.flatMap((path) => ['identity', 'br'].map((encoding) => ({ path, encoding })))
  for (const { path, encoding } of cases) {
    const accepted = { 'accept-encoding': encoding }
    const { headers, text } = await admin.get(path, accepted)
    const tag = headers.get('etag') ?? ''
    t.match(tag, /^"[\w-]{20,}"$/, path)
    t.equal(await tagOf(path, accepted), tag)
    if (!headers.has('content-encoding')) {
      t.equal(Number(headers.get('content-length')), Buffer.byteLength(text))
    }
    const conditions: [Record<string, string>, number][] = [
      [{ 'if-none-match': tag }, 304],
      [{ 'if-none-match': `"x", W/${tag}` }, 304],
      [{ 'if-none-match': '"x"' }, 200],
      [{ 'if-match': tag }, 200],
      [{ 'if-match': '"x"' }, 412],
      [{ 'if-match': `W/${tag}` }, 412],
      [{ 'if-match': tag, 'if-none-match': tag }, 304],
    ]
    for (const [sent, status] of conditions) {
      const reply = await admin.get(path, { ...accepted, ...sent })
      t.equal(reply.status, status, `${path} ${JSON.stringify(sent)}`)
      t.equal(reply.headers.get('etag'), tag)
      const cached = headers.get('cache-control')
      t.equal(reply.headers.get('cache-control'), status === 412 ? 'no-store' : cached)
      if (status !== 412) continue
      t.equal(reply.body.error.code, 'PRECONDITION_FAILED')
      t.notOk(reply.headers.has('content-encoding'), 'an error is not compressed')
    }
    const broken = await admin.get(path, { ...accepted, 'x-long': 'x'.repeat(17_000) })
    t.equal(broken.status, 431)
    t.equal(broken.headers.get('etag'), null, 'an error has no tag')
  }
})

/** Sends GET and HEAD, checks that both have the same status and tag, and returns the reply to GET. */
async function read(t: Test, path: string, headers: Record<string, string>): Promise<Reply> {
  const get = await admin.get(path, headers)
  const head = await admin.call('HEAD', path, { headers })
  t.equal(head.status, get.status, `HEAD ${path} ${JSON.stringify(headers)}`)
  t.equal(head.headers.get('etag'), get.headers.get('etag'))
  return get
}

t.test('If-Match on a read returns 412 for another tag, with the strong comparison', async (t) => {
  for (const version of [1, 2]) {
    const { path, tag } = await product(version)
    const narrowed = await tagOf(`${path}?fields=name`)
    const others = ['"x"', `W/${tag}`, append(tag, '-gzip'), narrowed, tag.slice(1, -1), '']
    const cases: [query: string, sent: string, status: number][] = [
      ...[tag, `"x", ${tag}`, '*'].map((sent): [string, string, number] => ['', sent, 200]),
      ...others.map((sent): [string, string, number] => ['', sent, 412]),
      ['?fields=name', narrowed, 200],
      ['?fields=name', tag, 412],
    ]
    for (const [query, sent, status] of cases) {
      const reply = await read(t, path + query, { 'if-match': sent })
      t.equal(reply.status, status, `${query} ${sent}`)
      t.equal(reply.headers.get('etag'), query === '' ? tag : narrowed)
      if (status !== 412) continue
      t.equal(reply.body.error.code, 'PRECONDITION_FAILED')
      t.equal(reply.headers.get('cache-control'), 'no-store')
      t.equal(reply.headers.get('last-modified'), null)
    }
    await admin.patch(path, { stock: 3 })
    t.equal((await admin.get(path, { 'if-match': tag })).status, 412, 'after a change')
  }
})

t.test('If-Unmodified-Since on a read returns 412 for a changed resource', async (t) => {
  const { path, id, tag } = await product()
  await changedAt(id, CHANGED_AT)
  for (const [sent, isChanged] of DATES) {
    const reply = await read(t, path, { 'if-unmodified-since': sent })
    t.equal(reply.status, isChanged ? 412 : 200, sent)
    t.equal(reply.headers.get('etag'), tag)
  }
  const including = await admin.get('/users/me?include=profile', { 'if-unmodified-since': EARLIER })
  t.equal(including.status, 200, 'no date with include')
})

t.test('the conditions of a read are evaluated in the order of RFC 9110, section 13.2.2', async (t) => {
  const { path, tag } = await product()
  const cases: [Record<string, string>, number][] = [
    [{ 'if-match': tag, 'if-unmodified-since': EARLIER }, 200],
    [{ 'if-match': '"x"', 'if-unmodified-since': LATER }, 412],
    [{ 'if-match': '"x"', 'if-none-match': tag }, 412],
    [{ 'if-match': tag, 'if-none-match': tag }, 304],
    [{ 'if-match': tag, 'if-modified-since': LATER }, 304],
    [{ 'if-unmodified-since': EARLIER, 'if-none-match': tag }, 412],
    [{ 'if-unmodified-since': LATER, 'if-none-match': tag }, 304],
    [{ 'if-unmodified-since': LATER, 'if-none-match': '"x"', 'if-modified-since': LATER }, 200],
    [{ 'if-unmodified-since': LATER, 'if-modified-since': LATER }, 304],
    [{ 'if-none-match': '"x"', 'if-modified-since': LATER }, 200],
    [{ 'if-none-match': tag, 'if-modified-since': EARLIER }, 304],
  ]
  for (const [sent, status] of cases) {
    t.equal((await read(t, path, sent)).status, status, JSON.stringify(sent))
  }
  t.equal((await admin.get(`/products/${uuid()}`, { 'if-match': '"x"' })).status, 404, '404 before 412')
  t.equal((await admin.get(`/products/${uuid()}`, { 'if-none-match': '*' })).status, 404, '404 before 304')
  t.equal((await admin.get(`${path}?limit=1`, { 'if-match': '"x"' })).status, 400, '400 before 412')
  t.equal((await strict.get(path)).status, 200, 'REQUIRE_IF_MATCH is for writes alone')
})

type Product = Awaited<ReturnType<typeof product>>
type Fields = Record<string, string>

/** Sends PUT, PATCH and DELETE, each to a product of its own, so that each may succeed. */
async function write(fields: (made: Product) => Fields | Promise<Fields>, client = admin) {
  const replies: (Reply & { path: string; tag: string })[] = []
  for (const method of ['PUT', 'PATCH', 'DELETE']) {
    const made = await product()
    const { sku } = made.made.body.data
    const body = { PUT: { sku, name: 'D', price_amount: 2 }, PATCH: { stock: 2 }, DELETE: undefined }[method]
    const reply = await client.call(method, made.path, { body, headers: await fields(made) })
    replies.push({ ...reply, path: made.path, tag: made.tag })
  }
  return replies
}

const getStatuses = (replies: Reply[]) => replies.map(({ status }) => status)
const SUCCEEDED = [200, 200, 204]
const FAILED = [412, 412, 412]

t.test('If-Match allows a write of an unchanged revision', async (t) => {
  const matching: Record<string, (made: Product) => string | Promise<string>> = {
    'the tag': ({ tag }) => tag,
    'its weak form': ({ tag }) => `W/${tag}`,
    'one of several': ({ tag }) => `"x", ${tag} , W/"y"`,
    ...Object.fromEntries(SUFFIXES.map((suffix) => [suffix, ({ tag }: Product) => append(tag, suffix)])),
    any: () => '*',
    'of version 2': ({ id }) => tagOf(`/api/v2/products/${id}`),
    'of another media type and other fields': ({ path }) => tagOf(`${path}?fields=name`, { accept: VENDOR }),
  }
  for (const [name, getTag] of Object.entries(matching)) {
    const replies = await write(async (made) => ({ 'if-match': await getTag(made) }))
    t.same(getStatuses(replies), SUCCEEDED, name)
  }
})

t.test('If-Match returns 412 with the current tag for any other tag, and nothing changes', async (t) => {
  const list = await tagOf('/products')
  const others = ['"2-abcdefghijkl"', '"11-abcdefghijkl"', '"1"', 'garbage', '', '"*"', '"1-x"']
  for (const sent of [...others, list]) {
    const replies = await write(() => ({ 'if-match': sent }))
    t.same(getStatuses(replies), FAILED, sent)
    for (const { body, headers, path, tag } of replies) {
      t.equal(body.error.code, 'PRECONDITION_FAILED')
      t.equal(headers.get('etag'), tag)
      t.equal(await tagOf(path), tag)
    }
  }
})

t.test('replies to POST, PUT and PATCH carry the tag for the next If-Match', async (t) => {
  for (const version of [1, 2]) {
    const { path, tag, made } = await product(version)
    const { sku } = version === 1 ? made.body.data : made.body.data.attributes
    const put = await admin.put(path, { sku, name: 'D', price_amount: 2 }, { 'if-match': tag })
    t.equal(put.status, 200)
    const second = put.headers.get('etag') ?? ''
    t.not(second, tag)
    t.equal(await tagOf(path), second)
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
  t.same(getStatuses(replies).sort(), [200, 412, 412, 412, 412, 412, 412, 412])
})

t.test('If-None-Match on a write returns 412 for * and for the current tag', async (t) => {
  for (const getTag of [() => '*', (tag: string) => tag, (tag: string) => `"x", W/${tag}`]) {
    const replies = await write(({ tag }) => ({ 'if-none-match': getTag(tag) }))
    t.same(getStatuses(replies), FAILED, getTag('"tag"'))
    for (const { headers, tag } of replies) t.equal(headers.get('etag'), tag)
  }
  t.same(getStatuses(await write(() => ({ 'if-none-match': '"x"' }))), SUCCEEDED)
  const body = { sku: 'NEW', name: 'N', price_amount: 1 }
  const created = await admin.put(`/products/${uuid()}`, body, { 'if-none-match': '*' })
  t.equal(created.status, 404, 'PUT never creates')
})

t.test('If-Unmodified-Since on a write returns 412 for a changed resource', async (t) => {
  for (const [sent, isChanged] of DATES) {
    const replies = await write(async ({ id }) => {
      await changedAt(id, CHANGED_AT)
      return { 'if-unmodified-since': sent }
    })
    t.same(getStatuses(replies), isChanged ? FAILED : SUCCEEDED, sent)
    if (isChanged) for (const { headers } of replies) t.match(headers.get('etag'), /^"1-/)
  }
  const ignored = await write(({ tag }) => ({ 'if-unmodified-since': EARLIER, 'if-match': tag }))
  t.same(getStatuses(ignored), SUCCEEDED, 'ignored with If-Match')
})

t.test('the date of a second that has not passed validates neither a read nor a write', async (t) => {
  // In the future, so that the test may take any time.
  const second = Date.parse('2089-05-06T07:08:09Z')
  const during = new Date(second).toUTCString()
  const after = new Date(second + 1000).toUTCString()
  const { path, id } = await product()
  for (const [sent, statuses] of [
    [during, [200, 412, 412]],
    [after, [304, 200, 200]],
  ] as const) {
    await changedAt(id, '2089-05-06T07:08:09.5Z')
    const replies = [
      await admin.get(path, { 'if-modified-since': sent }),
      await admin.get(path, { 'if-unmodified-since': sent }),
      await admin.patch(path, { name: sent }, { 'if-unmodified-since': sent }),
    ]
    t.same(getStatuses(replies), statuses, sent)
  }
  await changedAt(id, new Date(Date.now() - 1000).toISOString())
  const since = (await admin.get(path)).headers.get('last-modified') ?? ''
  t.equal((await admin.get(path, { 'if-modified-since': since })).status, 304, 'a second later')
})

t.test('with REQUIRE_IF_MATCH a write without If-Match is rejected with 428', async (t) => {
  for (const headers of [{}, { 'if-unmodified-since': LATER }]) {
    const replies = await write(() => headers, strict)
    t.same(getStatuses(replies), [428, 428, 428])
    for (const { body } of replies) t.equal(body.error.code, 'PRECONDITION_REQUIRED')
  }
  t.same(getStatuses(await write(({ tag }) => ({ 'if-match': tag }), strict)), SUCCEEDED)
  const made = await strict.post('/products', { sku: 'POST', name: 'P', price_amount: 1 })
  t.equal(made.status, 201, 'POST needs none')
  t.equal((await strict.get('/products')).status, 200)
  t.equal((await strict.delete(`/products/${uuid()}`)).status, 404, 'an unknown id is reported first')
})

t.test('Cache-Control is private, no-cache on reads and no-store on writes and errors', async (t) => {
  const { path, made } = await product()
  for (const where of [path, '/products', `/users/${adminId}`, '/users/me?include=profile']) {
    t.equal((await admin.get(where)).headers.get('cache-control'), 'private, no-cache', where)
  }
  const written = [made, await admin.patch(path, { stock: 1 }), await admin.delete(path)]
  const errors = [await admin.get(path), await admin.get('/nothing'), await admin.get('/products?x=1')]
  for (const { status, headers } of [...written, ...errors])
    t.equal(headers.get('cache-control'), 'no-store', String(status))
  for (const { headers } of errors) {
    t.equal(headers.get('etag'), null, 'no error but 412 has a tag')
    t.equal(headers.get('last-modified'), null)
  }
})
