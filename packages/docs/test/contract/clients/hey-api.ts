/**
 * A script with the client of Hey API, which validates request bodies with Zod before it sends them: it signs in, pages,
 * meets 412, 422 and 429, and retries with a key.
 */
import { createClient as createFetchClient } from '../.generated/clients/v1/hey-api/client/index.ts'
import * as sdk from '../.generated/clients/v1/hey-api/sdk.gen.ts'

/** A product as every reply has it. The client's own type must be assignable to it, without `!` and without a cast. */
interface Product {
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

interface Failure {
  code: string
  message: string
  request_id: string
  details?: readonly { field: string; code: string; message: string }[]
}

/** The headers that authenticate a request. */
export type Credentials = Record<string, string>

interface Result<Body> {
  data?: Body
  error?: { error: Failure } | undefined
  response?: Response
}

function expectBody<Body>({ data, error }: Result<Body>): Body {
  if (data === undefined) throw new Error(`${error?.error.code} ${error?.error.message}`)
  return data
}

const getHeader = ({ response }: Result<unknown>, name: string) => response?.headers.get(name)

const describe = ({ response, error }: Result<unknown>) => ({
  status: response?.status,
  code: error?.error.code,
  fields: error?.error.details?.map(({ field, code }) => `${field} ${code}`) ?? [],
})

/**
 * Runs the script. Returns what happened at each step.
 * @param limited headers with an API key that allows few requests a minute
 */
export async function converse(baseUrl: string, email: string, password: string, limited: Credentials) {
  const client = createFetchClient({ baseUrl })
  const { data: token } = expectBody(
    await sdk.createToken({ client, body: { grant_type: 'password', email, password } }),
  )
  const headers = { Authorization: `Bearer ${token.access_token}` }

  const ids = new Set<string>()
  let pages = 0
  for (let cursor: string | null | undefined; cursor !== null; pages += 1) {
    const query = { limit: 100, ...(cursor && { cursor }) }
    const page = expectBody(await sdk.listProducts({ client, headers, query }))
    for (const { id } of page.data) ids.add(id)
    cursor = 'has_more' in page.pagination && page.pagination.has_more ? page.pagination.cursor : null
  }

  const body = { sku: 'HEY-API-1', name: 'Tea', price_amount: 1999 }
  const create = () =>
    sdk.createProduct({ client, headers: { ...headers, 'Idempotency-Key': 'key-hey-api' }, body })
  const [created, repeated] = [await create(), await create()]
  const { id } = expectBody(created).data
  // Only the server knows the codes of ISO 4217: a client that validates against the document sends this one.
  const unknownCurrency = { ...body, sku: 'HEY-API-2', currency: 'QQQ' }
  const invalid = await sdk.createProduct({ client, headers, body: unknownCurrency })

  const read = await sdk.getProduct({ client, headers, path: { id } })
  const product: Product = expectBody(read).data
  const update = (stock: number) =>
    sdk.updateProduct({
      ...{ client, path: { id }, body: { stock } },
      headers: { ...headers, 'If-Match': getHeader(read, 'etag') ?? '' },
    })
  const [changed, stale] = [await update(25), await update(26)]

  let refused: Result<unknown> = {}
  for (let i = 0; i < 20 && refused.response?.status !== 429; i++)
    refused = await sdk.listProducts({ client, headers: limited, query: { limit: 1 } })

  return {
    listed: { pages, count: ids.size },
    created: created.response?.status,
    repeated: {
      status: repeated.response?.status,
      isReplayed: getHeader(repeated, 'idempotency-replayed'),
      isSame: expectBody(repeated).data.id === id,
    },
    invalid: describe(invalid),
    price: product.price_amount,
    changed: { status: changed.response?.status, stock: expectBody(changed).data.stock },
    stale: describe(stale),
    limited: {
      code: refused.error?.error.code,
      hasRetryAfter: Number(getHeader(refused, 'retry-after')) >= 1,
    },
  }
}
