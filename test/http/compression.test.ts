/** With COMPRESS, responses of the API are compressed, and their entity tags keep working. */
import { brotliDecompressSync } from 'node:zlib'
import t from 'tap'
import { ADMIN_KEY, testApp } from '../helpers/app.ts'

const LONG = 'A description. '.repeat(300).trim()
const product = (sku: string, description: string | null = LONG) => {
  return { sku, name: 'Tea', price_amount: 1999, description }
}

/** The headers of a browser; `fetch` decompresses the response. */
const COMPRESSED = { 'accept-encoding': 'gzip, br' }
const PLAIN = { 'accept-encoding': 'identity' }

t.test('without COMPRESS, responses are not compressed', async (t) => {
  const { admin } = await testApp(t)
  const made = await admin.post('/api/v1/products', product('TEA-1'), COMPRESSED)
  t.equal(made.status, 201)
  t.equal(made.headers.get('content-encoding'), null)
  t.equal(made.headers.get('vary'), 'Accept, Authorization, X-API-Key')
})

t.test('with COMPRESS', async (t) => {
  const { admin, app } = await testApp(t, { COMPRESS: 'true', CORS_ORIGINS: 'https://shop.test' })
  const { body: long } = await admin.post('/api/v1/products', product('TEA-1'))
  const { body: short } = await admin.post('/api/v1/products', product('TEA-2', null))
  const path = `/api/v1/products/${long.data.id}`

  await t.test('responses of 1 KiB and more are compressed, in every version and for errors', async (t) => {
    for (const url of [path, path.replace('v1', 'v2'), '/api/v1/products', '/products?page=1']) {
      const reply = await admin.get(url, COMPRESSED)
      t.equal(reply.headers.get('content-encoding'), 'br', url)
      t.ok(reply.text.includes(LONG))
    }
    const vendor = await admin.get(path, { ...COMPRESSED, accept: 'application/vnd.api+json' })
    t.equal(vendor.headers.get('content-encoding'), 'br')
    t.equal(vendor.headers.get('content-type'), 'application/vnd.api+json;version=1')
    const names = Array.from({ length: 40 }, (_, i) => [`unknown_${i}`, i])
    const wrong = await admin.post('/api/v1/products', Object.fromEntries(names), COMPRESSED)
    t.equal(wrong.status, 422)
    t.equal(wrong.headers.get('content-encoding'), 'br')
    const small = await admin.get(`/api/v1/products/${short.data.id}`, COMPRESSED)
    t.equal(small.headers.get('content-encoding'), null)
  })

  await t.test('every response names Accept-Encoding once in Vary', async (t) => {
    for (const [url, headers] of [
      [path, COMPRESSED],
      [path, PLAIN],
      [`/api/v1/products/${short.data.id}`, COMPRESSED],
      ['/api/v1/products?limit=0', COMPRESSED],
      [path, { ...COMPRESSED, origin: 'https://shop.test' }],
    ] as const) {
      const vary = (await admin.get(url, headers)).headers.get('vary') ?? ''
      t.equal(vary.toLowerCase().split('accept-encoding').length, 2, vary)
      t.match(vary, /^(Origin, )?Accept, Authorization, X-API-Key/)
    }
  })

  await t.test('HEAD has the headers of GET', async (t) => {
    const read = await admin.get(path, COMPRESSED)
    const head = await admin.call('HEAD', path, { headers: COMPRESSED })
    for (const name of ['etag', 'content-encoding', 'vary', 'content-type']) {
      t.equal(head.headers.get(name), read.headers.get(name), name)
    }
  })

  await t.test('the tag of a compressed response is weak, and works in later requests', async (t) => {
    const plain = await admin.get(path, PLAIN)
    const strong = plain.headers.get('etag') ?? ''
    t.notMatch(strong, /^W/)
    const compressed = await admin.get(path, COMPRESSED)
    const weak = compressed.headers.get('etag') ?? ''
    t.equal(weak, `W/${strong}`)

    for (const headers of [COMPRESSED, PLAIN]) {
      for (const tag of [weak, strong]) {
        for (const method of ['GET', 'HEAD']) {
          const kept = await admin.call(method, path, { headers: { ...headers, 'if-none-match': tag } })
          t.equal(kept.status, 304)
          t.equal(kept.headers.get('etag'), tag, 'a 304 has the tag of the response that the client keeps')
          t.match(kept.headers.get('vary'), /accept-encoding/i)
        }
      }
    }
    // RFC 9110, section 13.1.1: If-Match compares strongly, and a read promises the same bytes.
    t.equal((await admin.get(path, { ...COMPRESSED, 'if-match': weak })).status, 412)
    t.equal((await admin.get(path, { ...PLAIN, 'if-match': strong })).status, 200)

    const changed = await admin.patch(path, { stock: 3 }, { ...COMPRESSED, 'if-match': weak })
    t.equal(changed.status, 200)
    const next = changed.headers.get('etag') ?? ''
    t.match(next, /^W\/"/)
    t.equal((await admin.patch(path, { stock: 4 }, { 'if-match': weak })).status, 412)
    t.equal((await admin.patch(path, { stock: 4 }, { 'if-match': next })).status, 200)
    const last = (await admin.get(path, COMPRESSED)).headers.get('etag') ?? ''
    t.equal((await admin.delete(path, { 'if-match': last })).status, 204)
  })

  await t.test('a large page is compressed as a whole', async (t) => {
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
})
