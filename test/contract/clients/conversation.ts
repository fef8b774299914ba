/** The script that each generated client runs: it signs in, pages, meets 412, 422 and 429, and retries with a key. */

/** A product as every reply has it. A client's own type must be assignable to it, without `!` and without a cast. */
export interface Product {
  id: string
  sku: string
  name: string
  description: string | null
  price_amount: number
  currency: string
  stock: number
  status: 'draft' | 'active' | 'archived'
  created_at: string
  updated_at: string
}

export interface Failure {
  code: string
  message: string
  request_id: string
  details?: readonly { field: string; code: string; message: string }[]
}

export interface Reply<Body> {
  status: number
  headers: Headers
  body?: Body | undefined
  error?: Failure | undefined
}

export interface ProductPage {
  data: Product[]
  pagination: { cursor: string | null; has_more: boolean }
}

/** The calls of a generated client, in its own types. Each takes the request headers of the caller. */
export interface Client {
  signIn(email: string, password: string): Promise<Reply<{ data: { access_token: string } }>>
  listProducts(
    credentials: Credentials,
    query: { limit: number; cursor?: string },
  ): Promise<Reply<ProductPage>>
  getProduct(credentials: Credentials, id: string): Promise<Reply<{ data: Product }>>
  createProduct(
    credentials: Credentials,
    product: { sku: string; name: string; price_amount: number; currency?: string },
    idempotencyKey?: string,
  ): Promise<Reply<{ data: Product }>>
  updateProduct(
    credentials: Credentials,
    id: string,
    changes: { stock?: number; description?: string },
    ifMatch?: string,
  ): Promise<Reply<{ data: Product }>>
}

/** The headers that authenticate a request. */
export type Credentials = Record<string, string>

export interface Setting {
  email: string
  password: string
  /** Headers with an API key that allows few requests a minute. */
  limited: Credentials
  /** Prefix of the SKUs. */
  name: string
}

function expectBody<Body>({ status, body, error }: Reply<Body>): Body {
  if (body === undefined) throw new Error(`status ${status}: ${error?.code} ${error?.message}`)
  return body
}

const describe = ({ status, error }: Reply<unknown>) => ({
  status,
  code: error?.code,
  fields: error?.details?.map(({ field, code }) => `${field} ${code}`) ?? [],
})

async function countProducts(client: Client, credentials: Credentials) {
  const ids = new Set<string>()
  let pages = 0
  for (let cursor = ''; ; ) {
    const page = expectBody(await client.listProducts(credentials, { limit: 100, ...(cursor && { cursor }) }))
    pages += 1
    for (const { id } of page.data) ids.add(id)
    if (!page.pagination.has_more) return { pages, count: ids.size }
    cursor = page.pagination.cursor ?? ''
  }
}

/** Sends reads until one is refused, at most 20. */
async function meetLimit(client: Client, { limited }: Setting) {
  for (let i = 0; i < 20; i++) {
    const reply = await client.listProducts(limited, { limit: 1 })
    if (reply.status === 429) {
      return { code: reply.error?.code, hasRetryAfter: Number(reply.headers.get('retry-after')) >= 1 }
    }
  }
  return undefined
}

/** Runs the script. Returns what happened at each step. */
export async function converse(client: Client, setting: Setting) {
  const { email, password, name } = setting
  const { data: token } = expectBody(await client.signIn(email, password))
  const user = { Authorization: `Bearer ${token.access_token}` }

  const listed = await countProducts(client, user)

  const product = { sku: `${name}-1`, name: 'Tea', price_amount: 1999 }
  const created = await client.createProduct(user, product, `key-${name}`)
  const repeated = await client.createProduct(user, product, `key-${name}`)
  const { id } = expectBody(created).data
  // Only the server knows the codes of ISO 4217: a client that validates against the document sends this one.
  const invalid = await client.createProduct(user, { ...product, sku: `${name}-2`, currency: 'QQQ' })

  const read = await client.getProduct(user, id)
  const tag = read.headers.get('etag') ?? ''
  const changed = await client.updateProduct(user, id, { stock: 25 }, tag)
  const stale = await client.updateProduct(user, id, { stock: 26 }, tag)

  return {
    listed,
    created: created.status,
    repeated: {
      status: repeated.status,
      isReplayed: repeated.headers.get('idempotency-replayed'),
      isSame: expectBody(repeated).data.id === id,
    },
    invalid: describe(invalid),
    price: expectBody(read).data.price_amount,
    changed: { status: changed.status, stock: expectBody(changed).data.stock },
    stale: describe(stale),
    limited: await meetLimit(client, setting),
  }
}
