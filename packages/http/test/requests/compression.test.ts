/** With COMPRESS, responses of the API are compressed, and their entity tags keep working. */
import { brotliDecompressSync } from 'node:zlib'
import t from 'tap'
import { ADMIN_KEY, testApp } from '../../../testing/helpers/app.ts'

const LONG = 'A description. '.repeat(300).trim()
const product = (sku: string, description: string | null = LONG) => {
  return { sku, name: 'Tea', price_amount: 1999, description }
}

/** The headers of a browser; `fetch` decompresses the response. */
const COMPRESSED = { 'accept-encoding': 'gzip, br' }
const PLAIN = { 'accept-encoding': 'identity' }

const { admin, app } = await testApp(t, { COMPRESS: 'true', CORS_ORIGINS: 'https://shop.test' })
const { body: long } = await admin.post('/api/v1/products', product('TEA-1'))
const { body: short } = await admin.post('/api/v1/products', product('TEA-2', null))
const path = `/api/v1/products/${long.data.id}`
const small = `/api/v1/products/${short.data.id}`

t.test('responses of 1 KiB and more are compressed, and each names Accept-Encoding in Vary', async (t) => {
  const names = Array.from({ length: 40 }, (_, i) => [`unknown_${i}`, i])
  const wrong = await admin.post('/api/v1/products', Object.fromEntries(names), COMPRESSED)
  t.equal(wrong.status, 422)
  const vendor = await admin.get(path, { ...COMPRESSED, accept: 'application/vnd.api+json' })
  t.equal(vendor.headers.get('content-type'), 'application/vnd.api+json;version=1')
  const crossed = { ...COMPRESSED, origin: 'https://shop.test' }
  for (const [reply, encoding] of [
    [wrong, 'br'],
    [vendor, 'br'],
    [await admin.get(path, COMPRESSED), 'br'],
    [await admin.get(path.replace('v1', 'v2'), COMPRESSED), 'br'],
    [await admin.get('/products?page=1', COMPRESSED), 'br'],
    [await admin.get(path, crossed), 'br'],
    [await admin.get(path, PLAIN), null],
    [await admin.get(small, COMPRESSED), null],
    [await admin.get('/api/v1/products?limit=0', COMPRESSED), null],
  ] as const) {
    t.equal(reply.headers.get('content-encoding'), encoding)
    if (encoding && reply.status === 200) t.ok(reply.text.includes(LONG))
    const vary = reply.headers.get('vary') ?? ''
    t.equal(vary.toLowerCase().split('accept-encoding').length, 2, vary)
    t.match(vary, /^(Origin, )?Accept, Authorization, X-API-Key/)
  }
})

t.test('the tag of a compressed response is weak, and works in later requests', async (t) => {
  const strong = (await admin.get(path, PLAIN)).headers.get('etag') ?? ''
  t.notMatch(strong, /^W/)
  const weak = `W/${strong}`
  for (const method of ['GET', 'HEAD']) {
    const { headers } = await admin.call(method, path, { headers: COMPRESSED })
    t.same([headers.get('etag'), headers.get('content-encoding')], [weak, 'br'])
    for (const encoding of [COMPRESSED, PLAIN]) {
      for (const tag of [weak, strong]) {
        const kept = await admin.call(method, path, { headers: { ...encoding, 'if-none-match': tag } })
        // A 304 has the tag of the response that the client keeps.
        t.same([kept.status, kept.headers.get('etag')], [304, tag])
        t.match(kept.headers.get('vary'), /accept-encoding/i)
      }
    }
  }
  // RFC 9110, section 13.1.1: If-Match compares strongly, and a read promises the same bytes.
  t.equal((await admin.get(path, { ...COMPRESSED, 'if-match': weak })).status, 412)
  t.equal((await admin.get(path, { ...PLAIN, 'if-match': strong })).status, 200)

  const changed = await admin.patch(path, { stock: 3 }, { ...COMPRESSED, 'if-match': weak })
  const next = changed.headers.get('etag') ?? ''
  t.match([changed.status, next], [200, /^W\/"/])
  t.equal((await admin.patch(path, { stock: 4 }, { 'if-match': weak })).status, 412)
  t.equal((await admin.delete(path, { 'if-match': next })).status, 204)
})

t.test('a large page is compressed as a whole', async (t) => {
  for (let i = 0; i < 60; i++) await admin.post('/api/v1/products', product(`LARGE-${i}`))
  const { rawPayload, headers } = await app.inject({
    url: '/api/v1/products?limit=100',
    headers: { 'accept-encoding': 'br', 'x-api-key': ADMIN_KEY },
  })
  t.equal(headers['content-encoding'], 'br')
  const text = brotliDecompressSync(rawPayload).toString()
  t.ok(text.length > 240_000)
  t.equal(JSON.parse(text).data.length, 61)
})
