/** The scopes of an API key narrow what the role of its owner allows. */
import t from 'tap'
import { type Client, type Json, testApp, UNKNOWN_ID } from '../../../testing/helpers/app.ts'
import { definitions } from '../../../testing/helpers/definitions.ts'
import {
  createActiveProduct,
  createUniqueName,
  createVersionedClient,
} from '../../../testing/helpers/versioned-client.ts'

const { admin, person } = await testApp(t)

t.test("a scope limits a key to some operations of its owner's role", async (t) => {
  const verbs = async (by: Client, path: string) => [
    (await by.get(path)).status,
    (await by.patch(path, { name: createUniqueName('n') })).status,
  ]
  const { id } = await createActiveProduct(createVersionedClient(admin, 1))
  const path = `/products/${id}`
  for (const [role, scopes, statuses] of [
    ['manager', ['products:read'], [200, 403]],
    // Write includes read.
    ['manager', ['products:write'], [200, 200]],
    ['manager', ['products:read', 'products:write'], [200, 200]],
    ['manager', ['*'], [200, 200]],
    ['manager', [], [403, 403]],
    ['manager', ['orders:read', 'products', 'product:write', 'products:write:read', ':write'], [403, 403]],
    // A scope never widens the role.
    ['member', ['*'], [200, 403]],
  ] as const) {
    t.same(await verbs((await person(role, scopes)).client, path), statuses, `${role}: ${scopes}`)
  }

  const reader = (await person('manager', ['products:read'])).client
  const refused = await reader.patch(path, { colour: 1 })
  t.match(refused.body.error, { code: 'FORBIDDEN', message: /products:write/ })
  t.equal((await reader.get('/orders')).status, 403)
  t.match((await reader.get('/orders')).body.error.message, /orders:read/)
  t.equal((await reader.get('/users/me')).status, 403)
  t.equal((await reader.delete(`/products/${UNKNOWN_ID}`)).status, 403)
  const { client: member, id: user } = await person('member')
  t.match((await member.get('/users')).body.error, { code: 'FORBIDDEN', message: /member/ })
  const writer = (await person('manager', ['users:write', 'user-profiles:write'])).client
  for (const path of [`/users/${user}?include=profile`, '/v2/users?include=profile'])
    t.equal((await writer.get(path)).status, 200, 'the scope of an include, which write includes')
})

t.test('a key can have the scopes that an operation accepts, and no others', async (t) => {
  const { bearer } = await person('admin')
  const create = async (scope: string) =>
    (await bearer.post('/api-keys', { name: 'Scopes', scopes: [scope] })).status
  const { paths } = (await admin.get('/openapi/v1.json')).body
  const operations = Object.values<Json>(paths).flatMap((path) => Object.values<Json>(path))
  const accepted = new Set<string>(operations.flatMap((operation) => operation['x-required-scopes'] ?? []))
  for (const scope of accepted) t.equal(await create(scope), 201, scope)
  const collections = definitions.map(({ name }) => name)
  for (const scope of collections.flatMap((name) => [`${name}:read`, `${name}:write`]))
    if (!accepted.has(scope)) t.equal(await create(scope), 422, scope)
  t.notOk(accepted.has('events:write'))
  const unknown = await bearer.post('/api-keys', { name: 'Unknown', scopes: ['no-such-collection:read'] })
  t.match(unknown.body.error.details, [{ field: 'scopes.0', code: 'INVALID_VALUE' }])
})
