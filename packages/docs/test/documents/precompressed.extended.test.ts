/** The documents and the assets of the pages are served compressed, with an entity tag for each encoding. */
import { readFileSync } from 'node:fs'
import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import t from 'tap'
import { request } from 'undici'
import { testApp } from '../../../testing/helpers/app.ts'
import { getCompressedFile } from '../../src/openapi/scalar.ts'

/** Sends a request with exactly these headers: `fetch` sets Accept-Encoding and decompresses the response itself. */
async function send(method: 'GET' | 'HEAD', path: string, sent: Record<string, string> = {}) {
  const { statusCode, headers, body } = await request(base + path, { method, headers: sent, reset: true })
  return { status: statusCode, headers, body: Buffer.from(await body.arrayBuffer()) }
}

const DECODERS = { br: brotliDecompressSync, gzip: gunzipSync } as const

const PATHS = [
  ...['/', '/docs/', '/docs/js/scalar.js', '/docs/js/page.js', '/docs/v1.json', '/.well-known/api-catalog'],
  ...['/openapi/v1.json', '/openapi/v2.json'],
]

const { base } = await testApp(t)

for (const path of PATHS) {
  t.test(path, async (t) => {
    const plain = await send('GET', path)
    const tags = new Set([plain.headers.etag])
    for (const encoding of ['br', 'gzip'] as const) {
      const reply = await send('GET', path, { 'accept-encoding': encoding })
      t.match(reply.headers, {
        'content-encoding': encoding,
        'content-length': String(reply.body.length),
        'content-type': plain.headers['content-type'],
        vary: /Accept-Encoding/,
      })
      t.ok(DECODERS[encoding](reply.body).equals(plain.body), `${encoding} has the same content`)
      t.ok(reply.body.length < plain.body.length)
      t.notOk(tags.has(reply.headers.etag), 'each encoding has its own tag')
      tags.add(reply.headers.etag)

      const head = await send('HEAD', path, { 'accept-encoding': encoding })
      const { date: _date, 'x-request-id': _id, ...headers } = reply.headers
      t.match(head.headers, headers, 'HEAD has the headers of GET')
      t.equal(head.body.length, 0)

      const tag = String(reply.headers.etag)
      for (const method of ['GET', 'HEAD'] as const) {
        const kept = await send(method, path, { 'accept-encoding': encoding, 'if-none-match': tag })
        t.match(kept, { status: 304, headers: { etag: tag, vary: reply.headers.vary } })
        t.equal(kept.headers['content-length'], undefined)
      }
      const other = await send('GET', path, { 'if-none-match': tag })
      t.equal(other.status, 200, 'the tag of one encoding does not match another')
    }
  })
}

t.test('the encoding is the one that the client prefers, Brotli before gzip', async (t) => {
  for (const [accepted, encoding] of [
    [undefined, undefined],
    // Too long to be read.
    [`br, ${'x'.repeat(1_100)}`, undefined],
    ['gzip, deflate, br, zstd', 'br'],
    ['br;q=0.5, gzip', 'gzip'],
    ['GZIP', 'gzip'],
    ['*', 'br'],
    ['br;q=0, *', 'gzip'],
    ['identity, br;q=0.5', undefined],
    ['deflate', undefined],
    ['gzip;q=0', undefined],
    ['*;q=0', undefined],
    ['', undefined],
    ['x;;=,', undefined],
  ] as const) {
    for (const path of ['/openapi/v1.json', '/docs/js/page.js']) {
      const sent = accepted === undefined ? {} : { 'accept-encoding': accepted }
      const { status, headers } = await send('GET', path, sent)
      t.match([status, headers.vary], [200, /Accept-Encoding/])
      t.equal(headers['content-encoding'], encoding, accepted ?? 'no header')
    }
  }
})

t.test('the script of Scalar begins with its license', async (t) => {
  const { body } = await send('GET', '/docs/js/scalar.js')
  t.match(body.toString('utf8', 0, 200), /^\/\*!\nMIT License\n\nCopyright \(c\) 2023-present Scalar\n/)
})

/** Bytes of the first view of the page, compressed. */
const MAX_FIRST_VIEW_BYTES = 853_000

t.test('the first view of the page is small, with the files of the build', async (t) => {
  const { headers, body } = await send('GET', '/docs/js/scalar.js')
  const hash = String(headers.etag).replaceAll('"', '')
  const compiledModule = new URL('../../dist/openapi/scalar.js', import.meta.url)
  const built = (encoding: 'br' | 'gzip') =>
    readFileSync(getCompressedFile(hash, encoding, compiledModule.href))
  for (const encoding of ['br', 'gzip'] as const) t.ok(DECODERS[encoding](built(encoding)).equals(body))
  const others = ['/docs/', '/docs/js/page.js', '/docs/js/accessibility.js', '/docs/v1.json']
  const replies = await Promise.all(others.map((path) => send('GET', path, { 'accept-encoding': 'br' })))
  const total = replies.reduce((sum, reply) => sum + reply.body.length, built('br').length)
  t.ok(total <= MAX_FIRST_VIEW_BYTES, `${total} bytes`)
})
