/** A user signs in, refreshes the token, signs out, and sets the expiry of API keys. */
import t from 'tap'
import { createClient, testApp } from '../helpers/app.ts'

t.test('a user signs in, refreshes the token and signs out', async (t) => {
  const { admin, anybody, base } = await testApp(t)
  const made = await admin.post('/users', {
    name: 'Ada',
    email: 'ada@example.com',
    password: 'correct horse battery',
  })
  t.equal(made.status, 201, made.text)
  const login = await anybody.post('/v2/tokens', {
    grant_type: 'password',
    email: 'Ada@example.com',
    password: 'correct horse battery',
  })
  t.equal(login.status, 201, login.text)
  const { access_token, refresh_token } = login.body.data.attributes
  const ada = createClient(base, { authorization: `Bearer ${access_token}` })
  t.equal((await ada.get('/users/me')).body.data.id, made.body.data.id)
  const sessions = await ada.get('/sessions')
  t.equal(sessions.status, 200, sessions.text)
  t.match(sessions.body.data, [{ current: true, user_id: made.body.data.id }])
  const key = await ada.post('/api-keys', { name: 'k', scopes: ['products:read'] })
  t.equal(key.status, 201, key.text)
  t.match(key.body.data, { prefix: /^rak_/, key: /^rak_/ })
  t.equal((await ada.get(`/api-keys/${key.body.data.id}`)).body.data.key, null)
  const machine = createClient(base, { 'x-api-key': key.body.data.key })
  t.equal((await machine.get('/products')).status, 200)
  t.equal((await machine.get('/orders')).status, 403)
  t.equal((await machine.get('/api-keys')).status, 403)
  const all = await Promise.all(
    Array.from({ length: 20 }, () => anybody.post('/tokens', { grant_type: 'refresh_token', refresh_token })),
  )
  t.same(
    all.map(({ status }) => status),
    all.map(() => 201),
  )
  t.equal(new Set(all.map(({ body }) => body.data.refresh_token)).size, 1)
  t.equal((await ada.delete(`/sessions/${sessions.body.data[0].id}`)).status, 204)
  t.equal((await ada.get('/users/me')).status, 401)
})

t.test(
  'expires_at of a key is within a year, and PUT with the value that was read changes nothing',
  async (t) => {
    const { person } = await testApp(t)
    const { bearer } = await person('member')
    const made = await bearer.post('/api-keys', { name: 'k', scopes: ['*'] })
    const path = `/api-keys/${made.body.data.id}`
    const { expires_at: end } = made.body.data
    const left = Date.parse(end) - Date.now()
    t.ok(left > 89 * 86_400_000 && left <= 90 * 86_400_000, '90 days when nothing is said')

    const same = await bearer.patch(path, { expires_at: end })
    t.equal(same.headers.get('etag'), made.headers.get('etag'))
    t.equal(same.body.data.updated_at, made.body.data.updated_at)
    const offset = new Date(Date.now() + 86_400_000).toISOString().replace('Z', '+02:00')
    const moved = await bearer.patch(path, { expires_at: offset })
    t.equal(moved.status, 200, moved.text)
    t.equal(moved.body.data.expires_at, new Date(offset).toISOString())

    for (const bad of [
      '0000-01-01T00:00:00Z',
      '2020-01-01T00:00:00Z',
      '9999-12-31T23:59:59Z',
      '2026-02-30T00:00:00Z',
      'soon',
      5,
      null,
    ]) {
      const reply = await bearer.patch(path, { expires_at: bad })
      t.equal(reply.status, 422, `${bad} ${reply.text}`)
    }
  },
)
