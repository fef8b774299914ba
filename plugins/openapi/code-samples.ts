/** Code samples of central operations: curl, TypeScript with the client package, and Python with `requests`. */
import { identity } from '../../lib/identity.ts'
import type { Operation } from './operation.ts'

interface Sample {
  /** The relations that the sample includes. */
  include?: readonly string[]
  curl: string
  typescript: string
  python: string
}

/**
 * The samples by operationId. `SERVER` and `API` stand for the URLs of the service and of the version, and the reader
 * replaces `YOUR_API_KEY`, `PRODUCT_ID`, `ORDER_ID` and `USER_ID`.
 */
const SAMPLES: Readonly<Record<string, Sample>> = {
  listProducts: {
    curl: `curl "API/products?status=active&sort=-price_amount&limit=20" \\
  -H "X-API-Key: YOUR_API_KEY"`,
    typescript: `for await (const product of client.products.list({ status: 'active', sort: ['-price_amount'] })) {
  console.log(product.sku, product.price_amount)
}`,
    python: `query = {"status": "active", "sort": "-price_amount", "limit": 20}
while True:
    response = requests.get("API/products", headers=headers, params=query)
    response.raise_for_status()
    page = response.json()
    print(page["data"])
    if not page["pagination"]["has_more"]:
        break
    query["cursor"] = page["pagination"]["cursor"]`,
  },
  listEvents: {
    curl: `curl "API/events?sort=position&limit=20" \\
  -H "X-API-Key: YOUR_API_KEY"`,
    typescript: `for await (const { cursor, event } of client.events.stream()) {
  console.log(event.type, event.resource_id, event.previous)
  // Store the cursor: events.stream({ cursor }) continues after it.
  console.log(cursor)
}`,
    python: `query = {"sort": "position", "limit": 100, "cursor": ""}
while True:
    response = requests.get("API/events", headers=headers, params=query)
    response.raise_for_status()
    page = response.json()
    print(page["data"])
    query["cursor"] = page["pagination"]["cursor"]
    if not page["pagination"]["has_more"]:
        break  # Poll again later, with this cursor.`,
  },
  getProduct: {
    curl: `curl "API/products/PRODUCT_ID" \\
  -H "X-API-Key: YOUR_API_KEY"`,
    typescript: `const product = await client.products.get('PRODUCT_ID')
console.log(product)`,
    python: `response = requests.get("API/products/PRODUCT_ID", headers=headers)
response.raise_for_status()
print(response.headers["ETag"], response.json()["data"])`,
  },
  createProduct: {
    curl: `curl -X POST "API/products" \\
  -H "X-API-Key: YOUR_API_KEY" \\
  -H "Content-Type: application/json" \\
  -d '{"sku": "TEA-001", "name": "Green tea", "price_amount": 1999, "stock": 25, "status": "active"}'`,
    typescript: `const product = await client.products.create({
  sku: 'TEA-001',
  name: 'Green tea',
  price_amount: 1999,
  stock: 25,
  status: 'active',
})
console.log(product.id)`,
    python: `product = {"sku": "TEA-001", "name": "Green tea", "price_amount": 1999, "stock": 25, "status": "active"}
response = requests.post("API/products", headers=headers, json=product)
response.raise_for_status()
print(response.json()["data"]["id"])`,
  },
  updateProduct: {
    curl: `curl -X PATCH "API/products/PRODUCT_ID" \\
  -H "X-API-Key: YOUR_API_KEY" \\
  -H "Content-Type: application/merge-patch+json" \\
  -d '{"price_amount": 1799}'`,
    typescript: `const product = await client.products.update('PRODUCT_ID', { price_amount: 1799 })
console.log(product)`,
    python: `response = requests.patch("API/products/PRODUCT_ID", headers=headers, json={"price_amount": 1799})
response.raise_for_status()
print(response.json()["data"])`,
  },
  createOrder: {
    curl: `curl -X POST "API/orders" \\
  -H "X-API-Key: YOUR_API_KEY" \\
  -H "Content-Type: application/json" \\
  -H "Idempotency-Key: cart-1042" \\
  -d '{"items": [{"product_id": "PRODUCT_ID", "quantity": 2}]}'`,
    typescript: `const order = await client.orders.create(
  { items: [{ product_id: 'PRODUCT_ID', quantity: 2 }] },
  { idempotencyKey: 'cart-1042' },
)
console.log(order.number, order.total_amount)`,
    python: `response = requests.post(
    "API/orders",
    headers={**headers, "Idempotency-Key": "cart-1042"},
    json={"items": [{"product_id": "PRODUCT_ID", "quantity": 2}]},
)
response.raise_for_status()
print(response.json()["data"])`,
  },
  updateOrder: {
    curl: `etag=$(curl -s -o /dev/null -w '%header{etag}' "API/orders/ORDER_ID" \\
  -H "X-API-Key: YOUR_API_KEY")
curl -X PATCH "API/orders/ORDER_ID" \\
  -H "X-API-Key: YOUR_API_KEY" \\
  -H "Content-Type: application/merge-patch+json" \\
  -H "If-Match: $etag" \\
  -d '{"status": "paid"}'`,
    typescript: `// Reads the order, and sends the change with If-Match; again if another client was faster.
const order = await client.orders.edit('ORDER_ID', () => ({ status: 'paid' }))
console.log(order)`,
    python: `url = "API/orders/ORDER_ID"
etag = requests.get(url, headers=headers).headers["ETag"]
response = requests.patch(url, headers={**headers, "If-Match": etag}, json={"status": "paid"})
if response.status_code == 412:
    print("Another client has changed the order: read it again")
response.raise_for_status()`,
  },
  listOrders: {
    include: ['user', 'products'],
    curl: `curl "API/orders?include=user,products&limit=5" \\
  -H "X-API-Key: YOUR_API_KEY"`,
    typescript: `for await (const order of client.orders.list({ include: ['user', 'products'] })) {
  console.log(order.number, order.user, order.products)
}`,
    python: `query = {"include": "user,products", "limit": 5}
response = requests.get("API/orders", headers=headers, params=query)
response.raise_for_status()
print(response.json()["data"])`,
  },
  createUser: {
    curl: `curl -X POST "API/users" \\
  -H "X-API-Key: YOUR_API_KEY" \\
  -H "Content-Type: application/json" \\
  -d '{"name": "Ada Lovelace", "email": "ada@example.com", "password": "twelve brass cogs, turning"}'`,
    typescript: `const user = await client.users.create({
  name: 'Ada Lovelace',
  email: 'ada@example.com',
  password: 'twelve brass cogs, turning',
})
console.log(user.id)`,
    python: `user = {"name": "Ada Lovelace", "email": "ada@example.com", "password": "twelve brass cogs, turning"}
response = requests.post("API/users", headers=headers, json=user)
response.raise_for_status()
print(response.json()["data"]["id"])`,
  },
  createPost: {
    curl: `curl -X POST "API/users/USER_ID/posts" \\
  -H "X-API-Key: YOUR_API_KEY" \\
  -H "Content-Type: application/json" \\
  -d '{"title": "On the engine", "body": "It can do whatever we know how to order it to perform."}'`,
    typescript: `const post = await client.users.posts('USER_ID').create({
  title: 'On the engine',
  body: 'It can do whatever we know how to order it to perform.',
})
console.log(post.id)`,
    python: `post = {"title": "On the engine", "body": "It can do whatever we know how to order it to perform."}
response = requests.post("API/users/USER_ID/posts", headers=headers, json=post)
response.raise_for_status()
print(response.json()["data"]["id"])`,
  },
  createToken: {
    curl: `curl -X POST "API/tokens" \\
  -H "Content-Type: application/json" \\
  -d '{"grant_type": "password", "email": "ada@example.com", "password": "twelve brass cogs, turning"}'`,
    typescript: `// Signs in before the first request, and refreshes the access token.
const user = await client.users.get('me')
console.log(user)`,
    python: `grant = {"grant_type": "password", "email": "ada@example.com", "password": "twelve brass cogs, turning"}
response = requests.post("API/tokens", json=grant)
response.raise_for_status()
print(response.json()["data"])`,
  },
}

const CLIENT = `import { createClient } from '${identity.clientPackage}'

const client = createClient({ baseUrl: 'SERVER', apiKey: 'YOUR_API_KEY' })`

const SIGN_IN_CLIENT = `import { createClient } from '${identity.clientPackage}'

const client = createClient({
  baseUrl: 'SERVER',
  signIn: { email: 'ada@example.com', password: 'twelve brass cogs, turning' },
})`

const REQUESTS = 'import requests\n'
const API_KEY_HEADERS = `${REQUESTS}
headers = {"X-API-Key": "YOUR_API_KEY"}`

/** The version that the client package calls; the documents of other versions have no samples for it. */
const CLIENT_VERSION = 1

/**
 * Returns the value of `x-codeSamples`, or undefined if there are no samples of the operation, or if they include a
 * relation that it does not have.
 * @param server the URL of the service
 * @param version of the API
 */
export function buildCodeSamples(
  { operationId, parameters = [] }: Pick<Operation, 'operationId' | 'parameters'>,
  server: string,
  version: number,
) {
  const sample = SAMPLES[operationId]
  if (sample === undefined) return undefined
  const relations: unknown[] = parameters.find(({ name }) => name === 'include')?.schema.items?.enum ?? []
  if (!(sample.include ?? []).every((name) => relations.includes(name))) return undefined
  const isSignIn = operationId === 'createToken'
  const client = isSignIn ? SIGN_IN_CLIENT : CLIENT
  const python = isSignIn ? REQUESTS : API_KEY_HEADERS
  const fill = (source: string) =>
    source.replaceAll(/\bSERVER\b/g, server).replaceAll(/\bAPI(?=\/)/g, `${server}/api/v${version}`)
  return [
    { lang: 'shell', label: 'curl', source: fill(sample.curl) },
    ...(version === CLIENT_VERSION
      ? [{ lang: 'typescript', label: 'TypeScript', source: fill(`${client}\n\n${sample.typescript}`) }]
      : []),
    { lang: 'python', label: 'Python', source: fill(`${python}\n${sample.python}`) },
  ]
}
