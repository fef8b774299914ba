/** Missing credentials are a 401 and a missing role a 403, before anything else of the request is checked. */
import t from 'tap'
import { testApp, UNKNOWN_ID } from '../helpers/app.ts'
import { createVersionedClient } from '../helpers/versioned-client.ts'

const { anybody, base, person } = await testApp(t)
const member = await person('member')

t.test('every request without credentials is a 401', async (t) => {
  const anonymous = createVersionedClient(anybody, 1)
  for (const reply of [
    await anonymous.get('/users/me'),
    await anonymous.get(`/orders/${UNKNOWN_ID}`),
    await anonymous.get('/user-profiles/x'),
    await anonymous.post('/users', {}),
    await anonymous.delete(`/orders/${UNKNOWN_ID}`),
  ]) {
    t.match(reply, { status: 401, code: 'UNAUTHORIZED', message: 'Authentication required' })
    t.match(reply.headers.get('www-authenticate'), /^Bearer/)
  }
})

t.test(
  'an operation that the role never allows is a 403 before body, query and row are checked',
  async (t) => {
    const own = createVersionedClient(member.client, 1)
    for (const reply of [
      await own.get('/users?nonsense=1'),
      await own.post('/users', []),
      await own.post('/products', { colour: 1 }),
      await own.delete(`/orders/${UNKNOWN_ID}`),
      await own.delete('/orders/nothing'),
      await own.patch('/products/nothing', {}),
    ]) {
      t.match(reply, { status: 403, code: 'FORBIDDEN', message: /member/ })
    }
  },
)

t.test('an unknown, mistyped or expired key is a 401', async (t) => {
  const { key } = member
  const mistyped = key.slice(0, -1) + (key.endsWith('a') ? 'b' : 'a')
  for (const wrong of ['x', mistyped, key.toUpperCase(), `${key} `.repeat(2), `${key}${key}`, 'rak_']) {
    const reply = await anybody.get('/users/me', { 'x-api-key': wrong })
    t.equal(reply.status, 401)
    t.equal(reply.body.error.message, 'Invalid or expired API key')
    t.match(reply.headers.get('www-authenticate'), /^Bearer/)
  }
  t.equal((await anybody.get('/users/me', { 'x-api-key': '' })).body.error.message, 'Authentication required')
  const bearer = await anybody.get('/users/me', { authorization: 'Bearer nonsense' })
  t.same([bearer.status, bearer.body.error.message], [401, 'Invalid or expired token'])
  const both = await anybody.get('/users/me', { authorization: 'Bearer x', 'x-api-key': key })
  t.same([both.status, both.body.error.code], [400, 'INVALID_REQUEST'])
})

t.test('OPTIONS and routes without a version need no credentials', async (t) => {
  for (const path of ['/api/v1/users', '/v2/orders', `/products/${UNKNOWN_ID}`]) {
    const reply = await fetch(`${base}${path}`, { method: 'OPTIONS' })
    t.equal(reply.status, 204)
  }
  t.equal((await anybody.get('/livez')).status, 200)
  t.equal((await anybody.get('/openapi/v1.json')).status, 200)
})
