/** Conditional requests follow RFC 9110: entity tags, dates, 304 and 412. */
import t, { type Test } from 'tap'
import { v7 as uuid } from 'uuid'
import { ADMIN_KEY, type Reply, testApp } from '../../testing/helpers/app.ts'
import { createSharedDatabase } from '../../testing/helpers/database.ts'
import { sendRaw } from '../../testing/helpers/network.ts'
import { parseHttpDate } from '../src/preconditions/http-date.ts'
import { hash, hashText } from '../src/preconditions/preconditions.ts'

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
  for (const [text, seconds] of [
    ['Sun Nov 16 08:49:37 1994', 784975777],
    ['Thu, 31 Dec 1998 23:59:60 GMT', 915148800], // A leap second is the next second.
    ['Mon, 29 Feb 2016 00:00:00 GMT', 1456704000],
    ['Wednesday, 01-Jan-30 00:00:00 GMT', 1893456000], // Two digits are a year of the near future.
  ] as const)
    t.equal(parseHttpDate(text), seconds, text)
  for (const text of [
    ...['Sun, 32 Jan 2090 00:00:00 GMT', 'Sun, 30 Feb 2090 00:00:00 GMT', 'Sun, 01 Jan 2090 25:00:00 GMT'],
    ...['Sun, 01 Jan 2090 00:00:00 +0100', 'Sun, 01 Jan 2090 00:00:00', 'Sun, 1 Jan 2090 00:00:00 GMT'],
    ...['Sun, 01 Foo 2090 00:00:00 GMT', 'Hello 2090', '2090-01-01', '4102444800'],
  ])
    t.equal(parseHttpDate(text), undefined, text)
})

t.test('no hash ends like the hyphen of a suffix that a server in front appends', async (t) => {
  const texts = Array.from({ length: 1_000 }, (_, n) => String(n))
  const cut = texts.filter((text) => hashText(text)[11] === '-')
  t.ok(cut.length > 0)
  for (const text of cut) t.match(hash(text), /^[\w-]{11}_$/)
})

t.test('a resource has a strong tag, which depends on version, media type and fields', async (t) => {
  const { id, path, tag } = await product()
  t.equal(await tagOf(path), tag, 'although meta.timestamp differs')
  t.equal(await tagOf(`/products/${id}`), tag, 'the form of the path does not matter')
  const tags = new Set<string>()
  for (const version of ['v1', 'v2']) {
    for (const headers of [{}, { accept: VENDOR }])
      tags.add(await tagOf(`/api/${version}/products/${id}`, headers))
  }
  for (const fields of ['name', 'sku']) tags.add(await tagOf(`${path}?fields=${fields}`))
  t.equal(tags.size, 6)
  for (const tag of tags) t.match(tag, /^"1-[\w-]+"$/)
})

t.test('a list has a weak tag, which changes with its rows, its page and its fields', async (t) => {
  const { path } = await product()
  const before = await tagOf('/products')
  t.match(before, /^W\/"[\w-]+"$/)
  t.equal(await tagOf('/products'), before)
  const tags = new Set([before])
  await admin.patch(path, { stock: 7 })
  tags.add(await tagOf('/products'))
  await product()
  for (const query of ['', 'limit=1', 'page=1', 'fields=id', 'fields=sku'])
    tags.add(await tagOf(`/products?${query}`))
  t.equal(tags.size, 7)
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

/** What servers append to a tag when they compress the response: Apache, Caddy, Jetty, LiteSpeed, two in a row. */
const SUFFIXES = '-gzip -br -zstd --gzip --br --deflate ;gzip ;gz ;br :gzip -gzip--gzip'.split(' ')
const append = (tag: string, suffix: string) => tag.replace(/"$/, `${suffix}"`)
const compressed = (tag: string) => SUFFIXES.map((suffix) => append(tag, suffix))

type Fields = Record<string, string>
type Condition = [fields: Fields, status: number]

const toConditions = (name: string, status: number, values: string[]) =>
  values.map((value): Condition => [{ [name]: value }, status])

/** Sends GET and HEAD with each condition, and checks the status and the tag, which a 304 and a 412 have as well. */
async function checkReads(t: Test, path: string, tag: string, conditions: Condition[]) {
  for (const [headers, status] of conditions) {
    const sentence = `${path} ${JSON.stringify(headers)}`
    for (const method of ['GET', 'HEAD']) {
      const reply = await admin.call(method, path, { headers })
      t.same([reply.status, reply.headers.get('etag')], [status, tag], `${method} ${sentence}`)
      if (status === 304) t.equal(reply.text, '')
      if (status !== 412) continue
      t.match([reply.headers.get('cache-control'), reply.headers.get('last-modified')], ['no-store', null])
      if (method === 'GET') t.equal(reply.body.error.code, 'PRECONDITION_FAILED')
    }
  }
}

t.test('a read with If-None-Match is 304 for its tag, with If-Match 412 for another tag', async (t) => {
  for (const version of [1, 2]) {
    const { path, tag } = await product(version)
    const narrowed = await tagOf(`${path}?fields=name`)
    const without = tag.slice(1, -1)
    const weak = [`W/${tag}`, `"a", ${tag}`, `${tag},"b"`, `W/"a" , W/${tag}`, `W/${append(tag, '-gzip')}`]
    const other = ['"a"', without, 'garbage', '', '"*"', tag.replace('1-', '2-'), append(tag, '-x')]
    await checkReads(t, path, tag, [
      ...toConditions('if-none-match', 304, [tag, ...weak, '*', ' * ', ...compressed(tag)]),
      ...toConditions('if-none-match', 200, [...other, append(tag, 'gzip'), append(tag, '-gzip-x')]),
      // The strong comparison of the whole tag.
      ...toConditions('if-match', 200, [tag, `"x", ${tag}`, '*']),
      ...toConditions('if-match', 412, ['"x"', `W/${tag}`, append(tag, '-gzip'), narrowed, without, '']),
    ])
    await checkReads(t, `${path}?fields=name`, narrowed, [
      [{ 'if-match': narrowed }, 200],
      [{ 'if-match': tag }, 412],
    ])
    const changed = (await admin.patch(path, { stock: 1 })).headers.get('etag') ?? ''
    await checkReads(t, path, changed, [
      ...toConditions('if-none-match', 200, [tag, append(tag, '-gzip')]),
      [{ 'if-match': tag }, 412],
    ])
  }
})

t.test('a list has a weak tag and no date: of If-Match, only * holds', async (t) => {
  for (const path of ['/api/v1/products?limit=2', '/api/v2/products?page=1', '/users?include=profile']) {
    const tag = await tagOf(path)
    const strong = tag.replace('W/', '')
    await checkReads(t, path, tag, [
      ...toConditions('if-none-match', 304, [tag, strong, `"x", ${tag}`, '*', ...compressed(tag)]),
      ...toConditions('if-match', 412, [tag, strong, '"x"']),
      [{ 'if-match': '*' }, 200],
      [{ 'if-none-match': '"x"' }, 200],
      [{ 'if-modified-since': LATER }, 200],
      [{ 'if-unmodified-since': EARLIER }, 200],
    ])
  }
})

t.test('the dates of a read are those of its last change, and other texts are ignored', async (t) => {
  const { path, id, tag } = await product()
  await changedAt(id, CHANGED_AT)
  for (const [sent, isChanged] of DATES) {
    await checkReads(t, path, tag, [
      [{ 'if-modified-since': sent }, isChanged === false ? 304 : 200],
      [{ 'if-unmodified-since': sent }, isChanged ? 412 : 200],
    ])
  }
  const including = await admin.get('/users/me?include=profile', { 'if-unmodified-since': EARLIER })
  t.equal(including.status, 200, 'no date with include')
})

t.test('the conditions of a read are evaluated in the order of RFC 9110, section 13.2.2', async (t) => {
  const { path, tag } = await product()
  await checkReads(t, path, tag, [
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
  ])
  t.equal((await admin.get(`/products/${uuid()}`, { 'if-match': '"x"' })).status, 404, '404 before 412')
  t.equal((await admin.get(`/products/${uuid()}`, { 'if-none-match': '*' })).status, 404, '404 before 304')
  t.equal((await admin.get(`${path}?limit=1`, { 'if-match': '"x"' })).status, 400, '400 before 412')
  t.equal((await strict.get(path)).status, 200, 'REQUIRE_IF_MATCH is for writes alone')
})

/** Resources without a row, which have entity tags as well. */
const STATIC = ['/openapi/v1.json', '/docs/', '/docs/js/scalar.js', '/.well-known/jwks.json']

t.test('a 304 has the headers of the 200, and no Content-Length', async (t) => {
  const { path } = await product()
  for (const where of [path, '/products?limit=1', ...STATIC]) {
    const ok = await admin.call('HEAD', where, { headers: { 'accept-encoding': 'identity' } })
    for (const method of ['GET', 'HEAD']) {
      const request = `${method} ${where} HTTP/1.1\r\nHost: a\r\nX-API-Key: ${ADMIN_KEY}\r\nIf-None-Match: *\r\nConnection: close\r\n\r\n`
      const { replies, bytes } = await sendRaw(port, request)
      const { status, headers = {} } = replies[0] ?? {}
      t.equal(status, 304, `${method} ${where}`)
      for (const name of ['etag', 'cache-control', 'vary', 'api-version'])
        t.equal(headers[name] ?? null, ok.headers.get(name), name)
      t.match(headers, { etag: /^(W\/)?"[\w-]+"$/, 'x-request-id': /./ })
      t.notOk('content-length' in headers, `${method} ${where} without Content-Length`)
      t.notOk('content-type' in headers, `${method} ${where} without Content-Type`)
      t.ok(bytes.toString('latin1').endsWith('\r\n\r\n'), 'no body either')
    }
  }
  t.equal((await admin.call('HEAD', path)).headers.get('cache-control'), 'private, no-cache')
})

t.test('documents, their page and the key set have tags and evaluate conditions', async (t) => {
  const cases = STATIC.flatMap((path) => ['identity', 'br'].map((encoding) => ({ path, encoding })))
  for (const { path, encoding } of cases) {
    // Compressing the script of the page takes seconds where there is no build.
    if (path.endsWith('.js') && encoding === 'br') continue
    const accepted = { 'accept-encoding': encoding }
    const { headers, text } = await admin.get(path, accepted)
    const tag = headers.get('etag') ?? ''
    t.match(tag, /^"[\w-]{20,}"$/, path)
    if (!headers.has('content-encoding')) {
      t.equal(Number(headers.get('content-length')), Buffer.byteLength(text))
    }
    const conditions: Condition[] = [
      ...toConditions('if-none-match', 304, [tag, `"x", W/${tag}`, ...compressed(tag)]),
      ...toConditions('if-none-match', 200, ['"x"', append(tag, '-x')]),
      ...toConditions('if-match', 412, ['"x"', `W/${tag}`]),
      [{ 'if-match': tag }, 200],
      [{ 'if-match': tag, 'if-none-match': tag }, 304],
    ]
    for (const [sent, status] of conditions) {
      // The bodies of 200 are large.
      const method = status === 200 ? 'HEAD' : 'GET'
      const reply = await admin.call(method, path, { headers: { ...accepted, ...sent } })
      const cached = status === 412 ? 'no-store' : headers.get('cache-control')
      const found = [reply.status, ...['etag', 'cache-control'].map((name) => reply.headers.get(name))]
      t.same(found, [status, tag, cached], `${path} ${JSON.stringify(sent)}`)
      if (status !== 412) continue
      t.equal(reply.body.error.code, 'PRECONDITION_FAILED')
      t.notOk(reply.headers.has('content-encoding'), 'an error is not compressed')
    }
    const broken = await admin.get(path, { ...accepted, 'x-long': 'x'.repeat(17_000) })
    t.same([broken.status, broken.headers.get('etag')], [431, null], 'an error has no tag')
  }
})

type Product = Awaited<ReturnType<typeof product>>

/** Sends PUT, PATCH and DELETE to a product, each with the fields for the tag that it has by then. */
async function write(fields: (made: Product) => Fields | Promise<Fields>, client = admin) {
  const made = await product()
  const { sku } = made.made.body.data
  const replies: Reply[] = []
  for (const [method, body] of [
    ['PUT', { sku, name: 'D', price_amount: 2 }],
    ['PATCH', { stock: 2 }],
    ['DELETE', undefined],
  ] as const) {
    const reply = await client.call(method, made.path, { body, headers: await fields(made) })
    replies.push(reply)
    if (reply.status === 200) made.tag = reply.headers.get('etag') ?? ''
  }
  return { ...made, replies }
}

const getStatuses = (replies: Reply[]) => replies.map(({ status }) => status)
const SUCCEEDED = [200, 200, 204]
const FAILED = [412, 412, 412]

t.test('If-Match allows a write of an unchanged revision, and each reply has the next tag', async (t) => {
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
    const { replies, made } = await write(async (product) => ({ 'if-match': await getTag(product) }))
    t.same(getStatuses(replies), SUCCEEDED, name)
    const tags = [made, ...replies].map(({ headers }) => headers.get('etag')?.split('-')[0])
    t.same(tags, ['"1', '"2', '"3', undefined])
  }
})

t.test('a write whose condition fails is 412 with the current tag, and nothing changes', async (t) => {
  const list = await tagOf('/products')
  const others = ['"2-abcdefghijkl"', '"11-abcdefghijkl"', '"1"', 'garbage', '', '"*"', '"1-x"', list]
  for (const fields of [
    ...others.map((sent) => () => ({ 'if-match': sent })),
    ...['*', ''].map((star) => ({ tag }: Product) => ({ 'if-none-match': star || tag })),
    ({ tag }: Product) => ({ 'if-none-match': `"x", W/${tag}` }),
  ]) {
    const { replies, path, tag } = await write(fields)
    t.same(getStatuses(replies), FAILED, fields.toString())
    for (const { body, headers } of replies)
      t.same([body.error.code, headers.get('etag')], ['PRECONDITION_FAILED', tag])
    t.equal(await tagOf(path), tag)
  }
  t.same(getStatuses((await write(() => ({ 'if-none-match': '"x"' }))).replies), SUCCEEDED)
  const body = { sku: 'NEW', name: 'N', price_amount: 1 }
  const created = await admin.put(`/products/${uuid()}`, body, { 'if-none-match': '*' })
  t.equal(created.status, 404, 'PUT never creates')
})

t.test('of concurrent writes with the same tag one succeeds', async (t) => {
  const { path, tag } = await product(2)
  const replies = await Promise.all(
    Array.from({ length: 8 }, (_, i) => admin.patch(path, { stock: i + 1 }, { 'if-match': tag })),
  )
  t.same(getStatuses(replies).sort(), [200, ...Array(7).fill(412)])
})

t.test('If-Unmodified-Since on a write returns 412 for a changed resource', async (t) => {
  for (const [sent, isChanged] of DATES) {
    const { replies } = await write(async ({ id }) => {
      await changedAt(id, CHANGED_AT)
      return { 'if-unmodified-since': sent }
    })
    t.same(getStatuses(replies), isChanged ? FAILED : SUCCEEDED, sent)
    if (isChanged) for (const { headers } of replies) t.match(headers.get('etag'), /^"1-/)
  }
  const ignored = await write(({ tag }) => ({ 'if-unmodified-since': EARLIER, 'if-match': tag }))
  t.same(getStatuses(ignored.replies), SUCCEEDED, 'ignored with If-Match')
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
    const { replies } = await write(() => headers, strict)
    t.same(getStatuses(replies), [428, 428, 428])
    for (const { body } of replies) t.equal(body.error.code, 'PRECONDITION_REQUIRED')
  }
  const { replies } = await write(({ tag }) => ({ 'if-match': tag }), strict)
  t.same(getStatuses(replies), SUCCEEDED)
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
