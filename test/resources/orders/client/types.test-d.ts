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
} from '../../../../client/src/index.ts'

/** Accepts equal types only. */
const expectEqual = <A, B>(
  ..._: (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? [] : ['the types differ']
): void => undefined

type Product = Resource<'/api/v1/products'>
type User = Resource<'/api/v1/users'>

/** Never called: only its types matter. */
export async function checkTypes(client: Client) {
  // All fields of a resource are present.
  const product = await client.products.get('id')
  expectEqual<typeof product, Product>()
  expectEqual<Product['description'], string | null>()
  expectEqual<Product['status'], 'draft' | 'active' | 'archived'>()
  expectEqual<Product['price_amount'], number>()

  // `fields` narrows the type; `id` is always present.
  const named = await client.products.get('id', { fields: ['name'] })
  expectEqual<typeof named, { id: string; name: string }>()
  // @ts-expect-error: the price was not requested
  named.price_amount
  for await (const item of client.products.list({ status: 'active', fields: ['id', 'sku'] })) {
    expectEqual<typeof item, { id: string; sku: string }>()
  }
  // @ts-expect-error: products have no such field
  client.products.list({ fields: ['title'] })
  // @ts-expect-error: products have no such status
  client.products.list({ status: 'sold' })
  client.products.list({ status: ['active', 'draft'], sku: 'TEA-1', price_amount_min: 5 })
  // @ts-expect-error: each value is a status of a product
  client.products.list({ status: ['active', 'sold'] })
  // @ts-expect-error: products have no such filter
  client.products.list({ colour: 'green' })
  // @ts-expect-error: this field has no order
  client.products.list({ sort: ['stock'] })

  // `include` adds the relation in its own type.
  const order = await client.orders.get('id', { include: ['user', 'products'] })
  expectEqual<(typeof order.products)[number]['sku'], string>()
  const email: string | undefined = order.user?.email
  const quantity: number | undefined = order.items[0]?.quantity
  const owned = await client.users.get('me', { fields: ['name'], include: ['orders'] })
  expectEqual<keyof typeof owned, 'id' | 'name' | 'orders'>()
  expectEqual<(typeof owned.orders)[number]['number'], string>()
  const plain = await client.orders.get('id')
  // @ts-expect-error: the user was not included
  plain.user
  // @ts-expect-error: orders have no such relation
  client.orders.get('id', { include: ['profile'] })

  // Bodies are those of the document.
  await client.products.create({ sku: 'TEA', name: 'Tea', price_amount: 1 })
  // @ts-expect-error: the price is missing
  client.products.create({ sku: 'TEA', name: 'Tea' })
  // @ts-expect-error: the price is a number
  client.products.update('id', { price_amount: '1' })
  await client.products.update('id', { description: null }, { ifMatch: '"1-x"' })
  await client.products.edit('id', ({ stock }) => ({ stock: stock + 1 }))
  await client.products.edit('id', async ({ stock }) => (stock > 0 ? { stock: 0 } : undefined))

  // So are those of a collection of a user.
  const post = await client.users.posts('me').create({ title: 'First', body: 'Text' })
  expectEqual<typeof post.title, string>()

  // A collection has the calls that the document has.
  await client.sessions.delete('id')
  // @ts-expect-error: a session begins with a sign-in
  client.sessions.create({})
  // @ts-expect-error: an API key is not replaced
  client.apiKeys.replace('id', {})
  const { key } = await client.apiKeys.create({ name: 'ci', scopes: ['products:read'] })
  expectEqual<typeof key, string | null>()

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
    type: ['products.*'],
    resource_type: 'products',
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
  return { email, quantity, meta, live }
}
