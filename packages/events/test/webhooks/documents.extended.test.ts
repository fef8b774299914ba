/** Each body that an endpoint receives is valid against the schema of its type in the OpenAPI document of its version. */
import t from 'tap'
import { type Json, testApp } from '../../../testing/helpers/app.ts'
import { createEndpoint, startReceiver, verify } from '../../../testing/helpers/webhooks.ts'
import { createReplyChecker } from '../../../testing/src/reply-checker.ts'

const PASSWORD = 'correct horse battery'

const { admin, anybody, app, person } = await testApp(t)

/** Creates, changes and deletes a resource of each collection. */
async function changeEverything(key: string): Promise<void> {
  const post = async (path: string, body: object) => {
    const reply = await admin.post(path, body)
    if (reply.status !== 201) throw new Error(reply.text)
    return reply.body.data
  }
  const email = `ada.${key}@example.com`
  const user = await post('/users', { name: 'Ada', email, password: PASSWORD })
  const profile = await post('/user-profiles', { user_id: user.id, display_name: 'Ada' })
  const text = await post('/users/me/posts', { title: 'Tea', body: 'It is warm.' })
  const tea = { sku: `TEA-${key}`, name: 'Tea', price_amount: 5, stock: 9, status: 'active' }
  const product = await post('/products', tea)
  const unsold = await post('/products', { sku: `MATE-${key}`, name: 'Mate', price_amount: 5 })
  const order = await post('/orders', { items: [{ product_id: product.id, quantity: 1 }] })
  const disabled = { url: 'https://example.com/', event_types: ['users.*'], status: 'disabled' }
  const hook = await post('/webhook-endpoints', disabled)
  const grant = { grant_type: 'password', email, password: PASSWORD }
  const { access_token } = (await anybody.post('/tokens', grant)).body.data
  const bearer = { authorization: `Bearer ${access_token}` }
  const apiKey = (await anybody.post('/api-keys', { name: 'Export', scopes: ['*'] }, bearer)).body.data
  for (const [path, change] of [
    [`/user-profiles/${profile.id}`, { bio: 'Notes' }],
    [`/users/${text.user_id}/posts/${text.id}`, { title: 'Green tea' }],
    [`/products/${unsold.id}`, { name: 'Green tea' }],
    [`/orders/${order.id}`, { status: 'cancelled' }],
    [`/webhook-endpoints/${hook.id}`, { description: 'Search' }],
    [`/api-keys/${apiKey.id}`],
    [`/users/${user.id}`, { name: 'Ada Lovelace' }],
  ] as const) {
    if (change) t.equal((await admin.patch(path, change)).status, 200, path)
    t.equal((await admin.delete(path)).status, 204, path)
  }
}

for (const version of [1, 2]) {
  t.test(`deliveries in version ${version} are as its document describes them`, async (t) => {
    const receiver = await startReceiver(t)
    const owner = await person('admin')
    const fields = { event_types: ['*'], api_version: version }
    const endpoint = await createEndpoint(owner.bearer, receiver.url, fields)
    const published = (await admin.get(`/openapi/v${version}.json`)).body
    const { document, faults, resolve } = createReplyChecker(published)
    await changeEverything(`v${version}`)
    await owner.bearer.post(`/webhook-endpoints/${endpoint.id}/deliveries`, { test: true })
    await app.events.assignAll()
    const path = `/v1/events?sort=position&limit=100&created_after=${endpoint.created_at}`
    const wanted = (await owner.bearer.get(path)).body.data.map(({ id }: Json) => id)
    const received = await receiver.waitFor(wanted.length + 1)
    for (const webhook of received) t.ok(verify(endpoint.secret, webhook))
    const ids = received.map(({ headers }) => headers['webhook-id'])
    t.strictSame(ids.filter((id) => wanted.includes(id)).sort(), wanted.sort())

    const names = new Set<string>(received.map(({ body }) => body.type.split('.')[0]))
    t.strictSame([...names].sort(), Object.keys(document.webhooks).sort())
    for (const [name, { post }] of Object.entries<Json>(document.webhooks)) {
      const { schema } = post.requestBody.content['application/json']
      const bodies = received.filter(({ body }) => body.type.startsWith(`${name}.`)).map(({ body }) => body)
      const types = bodies.map(({ type }) => type)
      for (const kind of ['created', 'deleted', ...(name === 'webhook-endpoints' ? ['test'] : [])])
        t.ok(types.includes(`${name}.${kind}`), `${name}.${kind}`)
      for (const body of bodies) t.strictSame(faults(schema, body), [], body.type)
      const [body] = bodies
      t.not(faults(schema, { ...body, type: 'teapots.created' }).length, 0)
      t.not(faults(schema, { ...body, data: {} }).length, 0)
      const headers = post.parameters.map((parameter: Json) => resolve(parameter).name)
      t.strictSame(headers, ['webhook-id', 'webhook-timestamp', 'webhook-signature'])
    }
    await owner.bearer.delete(`/webhook-endpoints/${endpoint.id}`)
  })
}
