/**
 * The types of the client, checked by the compiler: `npm run typecheck` fails where one of these lines is wrong. Each
 * `@ts-expect-error` is an assertion: it is an error itself if the types accept the line below it.
 */
import {
  type Client,
  createClient,
  type FieldError,
  type Resource,
  type ResourceEvent,
  verifyWebhook,
} from '../src/index.ts'

/** Accepts equal types only. */
const expectEqual = <A, B>(
  ..._: (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? [] : ['the types differ']
): void => undefined

type User = Resource<'/api/v1/users'>
type Profile = Resource<'/api/v1/user-profiles'>

/** Never called: only its types matter. */
export async function checkTypes(client: Client) {
  // All fields of a resource are present.
  const user = await client.users.get('id')
  expectEqual<typeof user, User>()
  expectEqual<User['name'], string>()
  expectEqual<User['status'], 'active' | 'inactive' | 'suspended'>()
  expectEqual<Profile['bio'], string | null>()

  // `fields` narrows the type; `id` is always present.
  const named = await client.users.get('id', { fields: ['name'] })
  expectEqual<typeof named, { id: string; name: string }>()
  // @ts-expect-error: the email address was not requested
  named.email
  for await (const item of client.users.list({ status: 'active', fields: ['id', 'email'] })) {
    expectEqual<typeof item, { id: string; email: string }>()
  }
  // @ts-expect-error: users have no such field
  client.users.list({ fields: ['title'] })
  // @ts-expect-error: users have no such status
  client.users.list({ status: 'sold' })
  client.users.list({
    status: ['active', 'inactive'],
    email: 'ada@example.com',
  })
  // @ts-expect-error: each value is a status of a user
  client.users.list({ status: ['active', 'sold'] })
  // @ts-expect-error: users have no such filter
  client.users.list({ colour: 'green' })
  // @ts-expect-error: this field has no order
  client.users.list({ sort: ['role'] })

  // Measures and groups decide the type of an aggregate.
  const groups = await client.users.aggregate({ measures: ['count', 'max:created_at'], group_by: ['role'] })
  expectEqual<(typeof groups)[number]['count'], number>()
  expectEqual<(typeof groups)[number]['max'], { created_at: string | null }>()
  expectEqual<keyof (typeof groups)[number], 'group' | 'count' | 'max'>()
  expectEqual<(typeof groups)[number]['group'], { role: 'member' | 'manager' | 'admin' }>()
  // @ts-expect-error: names have no sum
  client.users.aggregate({ measures: ['sum:name'] })
  // @ts-expect-error: a time has a unit
  client.users.aggregate({ measures: ['count'], group_by: ['created_at'] })
  // @ts-expect-error: user profiles have no aggregates
  client.userProfiles.aggregate({ measures: ['count'] })

  // `include` adds the relation in its own type.
  const profile = await client.userProfiles.get('id', { include: ['user'] })
  const email: string | undefined = profile.user?.email
  const described = await client.users.get('me', { fields: ['name'], include: ['profile'] })
  expectEqual<keyof typeof described, 'id' | 'name' | 'profile'>()
  const bio: string | null | undefined = described.profile?.bio
  const plain = await client.userProfiles.get('id')
  // @ts-expect-error: the user was not included
  plain.user
  // @ts-expect-error: profiles have no such relation
  client.userProfiles.get('id', { include: ['profile'] })

  // Bodies are those of the document.
  await client.users.create({ name: 'Ada', email: 'ada@example.com' })
  // @ts-expect-error: the email address is missing
  client.users.create({ name: 'Ada' })
  // @ts-expect-error: the name is a text
  client.users.update('id', { name: 1 })
  await client.userProfiles.update('id', { bio: null }, { ifMatch: '"1-x"' })
  await client.users.edit('id', ({ name }) => ({ name: `${name} King` }))
  await client.users.edit('id', async ({ role }) => (role === 'admin' ? { role: 'member' } : undefined))

  // So are those of a collection below another one.
  const delivery = await client.webhookEndpoints.deliveries('id').create({ event_id: 'id' })
  expectEqual<typeof delivery.id, string>()

  // A collection has the calls that the document has.
  await client.sessions.delete('id')
  // @ts-expect-error: a session begins with a sign-in
  client.sessions.create({})
  // @ts-expect-error: an API key is not replaced
  client.apiKeys.replace('id', {})
  const { key } = await client.apiKeys.create({ name: 'ci', scopes: ['users:read'] })
  expectEqual<typeof key, string | null>()

  // A write has a dry run where the document has one.
  await client.users.create({ name: 'Ada', email: 'ada@example.com' }, { dryRun: true })
  await client.users.update('id', { name: 'Ada' }, { dryRun: true, ifMatch: '"1-x"', idempotencyKey: 'k' })
  await client.users.delete('id', { dryRun: true })
  await client.users.posts('id').restore('id', { dryRun: true })
  await client.products.create({ sku: 'A-1', name: 'Ink', price_amount: 100 }, { dryRun: true })
  await client.apiKeys.create({ name: 'ci', scopes: ['users:read'] }, { idempotencyKey: 'k' })
  // @ts-expect-error: an API key has no dry run
  client.apiKeys.create({ name: 'ci', scopes: ['users:read'] }, { dryRun: true })
  // @ts-expect-error: the end of a session has no dry run
  client.sessions.delete('id', { dryRun: true })
  // @ts-expect-error: a delivery has no dry run
  client.webhookEndpoints.deliveries('id').create({ event_id: 'id' }, { dryRun: true })
  // @ts-expect-error: a new secret has no dry run
  client.webhookEndpoints.createSecret('id', { dryRun: true })

  // A batch has the results of its operations, and ids of resources that it creates.
  const creation = client.users.batch.create({ name: 'Ada', email: 'ada@example.com' })
  const results = await client.batch([
    creation,
    client.userProfiles.batch.create({ user_id: creation.id, display_name: 'Ada' }),
    client.users.batch.update(creation.id, { name: 'Ada King' }, { ifMatch: '"1-x"' }),
    client.userProfiles.batch.delete('id'),
    { method: 'POST', path: '/orders/id/refunds', body: { reason: 'Broken' } },
  ])
  expectEqual<typeof results, [User, Profile, User, undefined, unknown]>()
  const creations = await client.batch(
    ['a', 'b'].map((name) => client.users.batch.create({ name, email: name })),
  )
  expectEqual<typeof creations, User[]>()
  // @ts-expect-error: the email address is missing
  client.users.batch.create({ name: 'Ada' })
  // @ts-expect-error: sessions are not written in batches
  client.sessions.batch
  // @ts-expect-error: reads are not operations
  client.batch([{ method: 'GET', path: '/users' }])

  // Whole responses and pages.
  const { data, etag, meta } = await client.users.get('me').withResponse()
  expectEqual<typeof data, User>()
  expectEqual<typeof etag, string | null>()
  const { pagination, next } = await client.users.list({ limit: 1 }).page()
  if ('cursor' in pagination) expectEqual<typeof pagination.cursor, string | null>()
  const second = await next()
  expectEqual<NonNullable<typeof second>['data'], User[]>()
  expectEqual<FieldError['field'], string>()

  // Every path of the document, with openapi-fetch.
  const live = await client.http.GET('/livez')
  // @ts-expect-error: there is no such path
  client.http.GET('/api/v1/nothing')

  // Events, and webhooks that deliver them.
  for await (const { cursor, event } of client.events.stream({
    type: ['users.*'],
    resource_type: 'users',
  })) {
    expectEqual<typeof cursor, string>()
    expectEqual<typeof event, ResourceEvent>()
  }
  // @ts-expect-error: events have no such filter
  client.events.stream({ colour: 'green' })
  const { data: delivered } = await verifyWebhook({ body: '', headers: new Headers(), secret: 'whsec_' })
  expectEqual<typeof delivered, ResourceEvent>()
  // @ts-expect-error: a secret is required
  verifyWebhook({ body: '', headers: {} })
  // @ts-expect-error: one secret or several
  verifyWebhook({ body: '', headers: {}, secret: '', secrets: [''] })

  createClient({ baseUrl: '', signIn: { email: '', password: '' } })
  createClient({ baseUrl: '' })
  // @ts-expect-error: either a key or a user
  createClient({ baseUrl: '', apiKey: '', signIn: { email: '', password: '' } })
  return { email, bio, meta, live }
}
