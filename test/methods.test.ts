import { METHODS } from 'node:http'
import t from 'tap'
import { v7 as uuid } from 'uuid'
import { ADMIN_KEY, testApp } from './helpers/app.ts'
import { raw } from './helpers/raw.ts'

const { admin, anybody, port } = await testApp(t)

const COLLECTION = ['GET', 'HEAD', 'OPTIONS', 'POST']
const MEMBER = ['DELETE', 'GET', 'HEAD', 'OPTIONS', 'PATCH', 'PUT']
const id = uuid()
const paths: [path: string, methods: string[]][] = [
  ...['users', 'user-profiles', 'products', 'orders', `users/${id}/posts`].flatMap(
    (name): [string, string[]][] => [
      [`/api/v1/${name}`, COLLECTION],
      [`/v2/${name}/${id}`, MEMBER],
    ],
  ),
  ['/users/me', MEMBER],
  ['/users/me/posts', COLLECTION],
  ['/livez', ['GET', 'HEAD', 'OPTIONS']],
  ['/readyz', ['GET', 'HEAD', 'OPTIONS']],
  ['/openapi/v1.json', ['GET', 'HEAD', 'OPTIONS']],
]

t.test(
  '405 with Allow for every method that a known path lacks; Allow lists exactly what works',
  async (t) => {
    for (const [path, methods] of paths) {
      for (const method of METHODS) {
        if (method === 'CONNECT') continue
        const request = `${method} ${path} HTTP/1.1\r\nHost: a\r\nX-API-Key: ${ADMIN_KEY}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`
        const [reply] = (await raw(port, request)).replies
        if (methods.includes(method)) {
          t.not(reply?.status, 405, `${method} ${path}`)
          continue
        }
        t.equal(reply?.status, 405, `${method} ${path}`)
        t.equal(reply?.headers.allow, methods.join(', '))
        t.equal(JSON.parse(reply?.text || '{}').error?.code, 'METHOD_NOT_ALLOWED')
      }
    }
  },
)

t.test('a body beside an unknown method is not looked at', async (t) => {
  for (const method of ['PROPFIND', 'QUERY', 'REPORT']) {
    const { status, headers } = await admin.call(method, '/products', { body: '{"broken' })
    t.equal(status, 405, method)
    t.equal(headers.get('allow'), COLLECTION.join(', '))
  }
})

t.test('OPTIONS: 204 with Allow, without credentials', async (t) => {
  for (const [path, methods] of paths) {
    const { status, headers, text } = await anybody.call('OPTIONS', path)
    t.equal(status, 204, path)
    t.equal(headers.get('allow'), methods.join(', '))
    t.equal(text, '')
  }
})

t.test('OPTIONS *: 204 with all that the server knows', async (t) => {
  const { replies } = await raw(port, 'OPTIONS * HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')
  t.equal(replies[0]?.status, 204)
  t.equal(replies[0]?.headers.allow, 'DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT')
})

t.test('404 for every method on an unknown path', async (t) => {
  for (const method of ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'PROPFIND']) {
    t.equal((await admin.call(method, '/api/v1/nothing')).status, 404, method)
    t.equal((await admin.call(method, '/')).status, 404, method)
  }
})
