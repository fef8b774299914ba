/** ADMIN_API_KEY is a key of the admin with the address ADMIN_EMAIL; without that admin it acts for no user. */
import t, { type Test } from 'tap'
import { testApp } from '../../../testing/helpers/app.ts'
import { readChanges } from '../../../testing/helpers/events.ts'

/** Starts an app with another admin, and takes its address from the first one or changes that one otherwise. */
async function start(t: Test, change?: string) {
  const app = await testApp(t)
  const other = await app.person('admin')
  if (change !== undefined) await app.database.run(`update users set ${change} where id = $1`, [app.adminId])
  app.app.credentials.keys.clearCache()
  return { ...app, other }
}

const newProduct = (sku: string) => ({ sku, name: 'Tea', price_amount: 1 })

for (const change of [`email = 'moved@example.com'`, `role = 'member'`]) {
  t.test(`the key acts for no user after ${change}`, async (t) => {
    const { admin, database, other } = await start(t, change)
    const { id } = (await admin.post('/products', newProduct('NO-ADMIN'))).body.data
    t.match(await readChanges(database, id), [
      { actor_id: null, credential: 'bootstrap_key', credential_id: null },
    ])
    const endpoint = { url: 'https://example.com/hooks', event_types: ['*'] }
    const hook = (await other.bearer.post('/webhook-endpoints', endpoint)).body.data
    const requests: [status: number, method: string, path: string, body?: unknown][] = [
      [200, 'GET', '/users'],
      [200, 'GET', '/api-keys'],
      [200, 'GET', '/orders?include=user'],
      [200, 'PATCH', `/users/${other.id}`, { name: 'Other' }],
      [200, 'PATCH', `/webhook-endpoints/${hook.id}`, { description: 'Other' }],
      [201, 'POST', `/webhook-endpoints/${hook.id}/secrets`],
      [204, 'DELETE', `/sessions/${other.sessionId}`],
      [201, 'POST', '/user-profiles', { user_id: other.id }],
      [404, 'GET', '/users/me'],
      [404, 'POST', '/users/me/posts', { title: 'a', body: 'b' }],
      [422, 'POST', '/user-profiles', {}],
      [403, 'POST', '/api-keys', { name: 'Export', scopes: ['*'] }],
      [403, 'POST', '/webhook-endpoints', endpoint],
    ]
    for (const [status, method, path, body] of requests) {
      const reply = await admin.call(method, path, { body })
      t.equal(reply.status, status, `${method} ${path} ${reply.text}`)
    }
    const keyed = await admin.post('/products', newProduct('KEYED'), { 'idempotency-key': 'a' })
    t.equal(keyed.status, 403)
    t.match(keyed.body.error.message, /ADMIN_EMAIL/)
  })
}

t.test('the key acts for its admin, also next to others who are older', async (t) => {
  const { admin, adminId, database, other } = await start(t)
  await database.run(`update users set created_at = created_at - interval '1 day' where id = $1`, [other.id])
  const { id } = (await admin.post('/products', newProduct('ADMIN'))).body.data
  t.match(await readChanges(database, id), [{ actor_id: adminId, credential: 'bootstrap_key' }])
})
