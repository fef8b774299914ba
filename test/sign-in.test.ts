import t from 'tap'
import { createClient, testApp } from './helpers/app.ts'

t.test('signing in, refreshing, signing out', async (t) => {
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
