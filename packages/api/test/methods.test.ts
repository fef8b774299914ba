/** Methods: OPTIONS and 405 list what a path supports, and unknown methods are rejected with 501. */
import { METHODS } from 'node:http'
import t from 'tap'
import { v7 as uuid } from 'uuid'
import { resources } from '../../../src/resources.ts'
import { ADMIN_KEY, testApp } from '../../testing/helpers/app.ts'
import { sendRaw } from '../../testing/helpers/network.ts'
import { toCollections } from '../../testing/helpers/serve.ts'

const { anybody, port } = await testApp(t)

const COLLECTION = ['GET', 'HEAD', 'OPTIONS', 'POST']
const MEMBER = ['DELETE', 'GET', 'HEAD', 'OPTIONS', 'PATCH', 'PUT']
const id = uuid()
const paths: [path: string, methods: string[]][] = [
  ...toCollections(resources).flatMap(({ name, parent }): [string, string[]][] => {
    const list = parent ? `${parent.to}/${id}/${name}` : name
    const own: [string, string[]][] = parent?.to === 'users' ? [[`/users/me/${name}`, COLLECTION]] : []
    return [[`/api/v1/${list}`, COLLECTION], [`/v2/${list}/${id}`, MEMBER], ...own]
  }),
  ['/users/me', MEMBER],
  ['/livez', ['GET', 'HEAD', 'OPTIONS']],
  ['/readyz', ['GET', 'HEAD', 'OPTIONS']],
  ['/openapi/v1.json', ['GET', 'HEAD', 'OPTIONS']],
]

/** RFC 9110, RFC 5789 for PATCH, and QUERY. Node's parser knows others too, which HTTP does not define. */
const DEFINED = ['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'CONNECT', 'OPTIONS', 'TRACE', 'PATCH', 'QUERY']
const UNDEFINED = METHODS.filter((method) => !DEFINED.includes(method))
const PATCH_TYPES = 'application/json, application/vnd.api+json, application/merge-patch+json'

const request = (method: string, path: string, fields = '') =>
  `${method} ${path} HTTP/1.1\r\nHost: a\r\nX-API-Key: ${ADMIN_KEY}\r\n${fields}Connection: close\r\n\r\n`

t.test('an unsupported method is rejected with 405, and Allow lists the supported ones', async (t) => {
  for (const [path, methods] of paths) {
    for (const method of DEFINED) {
      if (method === 'CONNECT') continue
      const [reply] = (await sendRaw(port, request(method, path, 'Content-Length: 0\r\n'))).replies
      if (methods.includes(method)) {
        t.not(reply?.status, 405, `${method} ${path}`)
        continue
      }
      t.equal(reply?.status, 405, `${method} ${path}`)
      t.equal(reply?.headers.allow, methods.join(', '))
      t.equal(JSON.parse(reply?.text || '{}').error?.code, 'METHOD_NOT_ALLOWED')
    }
  }
})

t.test('a method that HTTP does not define is rejected with 501 on every path', async (t) => {
  const names = ['/', '/nothing', '/api/v9/products', '/metrics', '/docs/', '/.well-known/jwks.json']
  const all = [...paths.map(([path]) => path), ...names]
  t.ok(UNDEFINED.includes('PROPFIND') && UNDEFINED.length > 20, 'the parser knows many')
  for (const method of ['PROPFIND', 'FOO', ...UNDEFINED, 'BREW', 'get', 'Get', 'X-1', 'G']) {
    for (const path of method === 'PROPFIND' || method === 'FOO' ? all : ['/nothing', '/v2/products']) {
      const [reply] = (await sendRaw(port, request(method, path, 'Content-Length: 0\r\n'))).replies
      t.equal(reply?.status, 501, `${method} ${path}`)
      const { 'x-request-id': request_id, ...headers } = reply?.headers ?? {}
      t.match(headers, { 'content-type': 'application/json; charset=utf-8', 'cache-control': 'no-store' })
      t.match(JSON.parse(reply?.text ?? ''), { error: { code: 'NOT_IMPLEMENTED', request_id } })
      if (method === 'PROPFIND' && path === '/v2/products')
        t.match(headers, { 'api-version': '2', vary: /^Accept/, 'x-ratelimit-limit': /\d/ })
    }
  }
})

t.test('an unknown method is rejected with 501 wherever the parser finds it, garbage with 400', async (t) => {
  const get = `GET /livez HTTP/1.1\r\nHost: a\r\n\r\n`
  const post = `POST /tokens HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}`
  for (const [bytes, ...statuses] of [
    [get + request('FOO', '/livez'), 200, 501],
    [post + request('FOO', '/livez'), 422, 501],
    [`\r\n${request('FOO', '/livez')}`, 501],
    ['FOO / HTTP/1.0\n\n', 501],
    [`FOO /${'a'.repeat(8_000)} HTTP/1.1\r\n\r\n`, 501],
    [`${'F'.repeat(1_000)} / HTTP/1.1\r\n\r\n`, 501],
    ['FOO /\r\n\r\n', 400],
    ['FOO  HTTP/1.1\r\n\r\n', 400],
    ['FOO / HTTP/2.0\r\n\r\n', 400],
    ['F(O / HTTP/1.1\r\n\r\n', 400],
    ['garbage\r\n\r\n', 400],
    [' FOO / HTTP/1.1\r\n\r\n', 400],
  ] as const) {
    const { replies, closed } = await sendRaw(port, bytes)
    const found = replies.map(({ status }) => status)
    t.same([found, closed], [statuses, true], JSON.stringify(bytes.slice(0, 200)))
  }
})

t.test('OPTIONS returns 204 with Allow, without credentials', async (t) => {
  for (const [path, methods] of paths) {
    const { status, headers, text } = await anybody.call('OPTIONS', path)
    t.equal(status, 204, path)
    t.equal(headers.get('allow'), methods.join(', '))
    t.equal(headers.get('accept-patch'), methods.includes('PATCH') ? PATCH_TYPES : null)
    t.equal(text, '')
  }
})

t.test('OPTIONS * returns 204 with all methods of the server', async (t) => {
  const [reply] = (await sendRaw(port, request('OPTIONS', '*'))).replies
  t.equal(reply?.status, 204)
  t.equal(reply?.headers.allow, 'DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT')
})
