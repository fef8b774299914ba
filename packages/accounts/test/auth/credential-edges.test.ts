/** Credentials that are malformed, unknown, expired, doubled, or of a role that does not exist, and when keys expire. */
import t from 'tap'
import { createClient, testApp } from '../../../testing/helpers/app.ts'
import { getViolations } from '../../../testing/helpers/replies.ts'

const { anybody, base, database, person } = await testApp(t, { ALLOW_SIGNUP: 'true' })

t.test('a credential that is none, unknown, mistyped or doubled is rejected', async (t) => {
  const { key, token, id } = await person('member')
  const mistyped = key.slice(0, -1) + (key.endsWith('a') ? 'b' : 'a')
  for (const wrong of ['x', mistyped, key.toUpperCase(), `${key} `.repeat(2), `${key}${key}`, 'rak_']) {
    const reply = await anybody.get('/users/me', { 'x-api-key': wrong })
    t.same([reply.status, reply.body.error.message], [401, 'Invalid or expired API key'])
    t.match(reply.headers.get('www-authenticate'), /^Bearer/)
  }
  const bearer = await anybody.get('/users/me', { authorization: 'Bearer nonsense' })
  t.same([bearer.status, bearer.body.error.message], [401, 'Invalid or expired token'])
  const both = await anybody.get('/users/me', { authorization: 'Bearer x', 'x-api-key': key })
  t.same([both.status, both.body.error.code], [400, 'INVALID_REQUEST'])

  const empty = createClient(base, { 'x-api-key': '' })
  for (const client of [anybody, empty]) {
    const none = await client.get('/users/me')
    t.match(none.body.error, { code: 'UNAUTHORIZED', message: 'Authentication required' })
    t.match(none.headers.get('www-authenticate'), /^Bearer/)
  }
  t.equal((await empty.get('/users/me', { authorization: `Bearer ${token}` })).body.data?.id, id)
  t.equal((await empty.post('/users', { name: 'New', email: 'new@example.com' })).status, 201)
})

t.test('expires_at of an API key is an RFC 3339 date-time within a year', async (t) => {
  const { bearer } = await person('member')
  const key = { name: 'k', scopes: ['*'] }
  // Within the next 365 days whatever day it is.
  const next = new Date().getUTCFullYear() + 1
  const day = `${next}-01-01`
  for (const expires_at of [
    ...[day, `${day}T10:00:00`, `${day} 10:00`, `${day}T24:00:00Z`, `${day}T10:00Z`],
    ...[`${next}-02-30T00:00:00Z`, `Fri, 01 Jan ${next} 10:00:00 GMT`, `+00${day}T10:00:00Z`],
    `${day}T10:00:00+0200`,
  ])
    t.same(getViolations(await bearer.post('/api-keys', { ...key, expires_at })), [
      'expires_at INVALID_FORMAT',
    ])
  const soon = Date.now() + 3 * 86_400_000
  const text = new Date(soon).toISOString()
  for (const [expires_at, meant] of [
    [text.toLowerCase(), text],
    [text.replace('Z', '123456Z'), text],
    [text.replace('Z', '-02:00'), new Date(soon + 2 * 3_600_000).toISOString()],
  ] as const)
    t.equal((await bearer.post('/api-keys', { ...key, expires_at })).body.data?.expires_at, meant)

  const made = await bearer.post('/api-keys', key)
  const { id, expires_at } = made.body.data
  const left = (Date.parse(expires_at) - Date.now()) / 86_400_000
  t.ok(left > 89 && left <= 90, '90 days by default')
  const path = `/api-keys/${id}`
  t.match([made.body.data.key, (await bearer.get(path)).body.data.key], [/^rak_/, null], 'shown once')
  const same = await bearer.patch(path, { expires_at })
  t.equal(same.headers.get('etag'), made.headers.get('etag'), 'the value that was read changes nothing')
  for (const bad of ['0000-01-01T00:00:00Z', '2020-01-01T00:00:00Z', '9999-12-31T23:59:59Z', 'soon', 5, null])
    t.equal((await bearer.patch(path, { expires_at: bad })).status, 422, String(bad))
})

// The table has no constraint on the role, so another program may write one that the service does not know.
t.test('the credentials of a user with an unknown role are rejected with 401', async (t) => {
  const { id, client, bearer } = await person('member')
  await database.run(`update users set role = 'constructor' where id = $1`, [id])
  for (const credential of [client, bearer]) t.equal((await credential.get('/products')).status, 401)
})
