/**
 * The features of this service by hand, as an application without a framework of its own would have them: an API key, a
 * rate limit, header fields, entity tags of lists, and an outbox that each write fills in its own statement.
 */
import { createHash } from 'node:crypto'
import { v7 as uuid } from 'uuid'
import { buildSearchText, formatTimestamps, limitConcurrency, sql } from './queries.js'

/** As long as this service caches a credential. */
const KEY_LIFETIME_MS = 4_000
const RATE_LIMIT = 1_000_000_000
const WINDOW_MS = 60_000

const HEADERS = {
  'content-security-policy': "default-src 'none';frame-ancestors 'none'",
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  vary: 'Accept, Authorization, X-API-Key',
  'api-version': '1',
}

const hash = (text) => createHash('sha256').update(text).digest('base64url')

async function createTables(apiKey) {
  await sql`
    create table if not exists reference_outbox (sequence bigserial primary key, type text not null, resource_id uuid not null,
      revision bigint not null, columns jsonb not null, previous jsonb, actor_id uuid not null, request_id uuid not null,
      created_at timestamptz not null default clock_timestamp())`
  await sql`create table if not exists reference_keys (hash text primary key, user_id uuid not null)`
  await sql`insert into reference_keys values (${hash(apiKey)}, ${uuid()}) on conflict do nothing`
}

const users = new Map()

/** Returns the id of the user of an API key, or undefined. */
async function findUser(key) {
  const [row] = await limitConcurrency(
    () => sql`select user_id from reference_keys where hash = ${hash(key)}`,
  )
  if (row) users.set(key, { id: row.user_id, until: Date.now() + KEY_LIFETIME_MS })
  return row?.user_id
}

const windows = new Map()

/** Counts a request in the window of the user. */
function countRequest(userId) {
  const now = Date.now()
  let window = windows.get(userId)
  if (!window || window.end <= now) {
    window = { count: 0, end: now + WINDOW_MS }
    windows.set(userId, window)
  }
  window.count += 1
  return window
}

/** Adds the hooks that run for every request. */
export async function addFeatures(app, apiKey) {
  await createTables(apiKey)
  app.decorateRequest('userId', '')

  app.addHook('onRequest', async (request, reply) => {
    reply.header('x-request-id', request.id).headers(HEADERS)
    reply.header('cache-control', request.method === 'GET' ? 'private, no-cache' : 'no-store')
    const key = request.headers['x-api-key'] ?? ''
    const user = users.get(key)
    const userId = user && user.until > Date.now() ? user.id : await findUser(key)
    if (!userId) return reply.code(401).send({ error: 'Unknown API key' })
    request.userId = userId
    const { count, end } = countRequest(userId)
    reply.header('x-ratelimit-limit', RATE_LIMIT)
    reply.header('x-ratelimit-remaining', Math.max(0, RATE_LIMIT - count))
    reply.header('x-ratelimit-reset', Math.ceil(end / 1000))
    if (count > RATE_LIMIT) return reply.code(429).send({ error: 'Too many requests' })
  })

  app.addHook('preSerialization', async (request, reply, body) => {
    const { data, pagination } = body
    if (!Array.isArray(data)) {
      if (request.method === 'GET') reply.header('last-modified', new Date(data.updated_at).toUTCString())
      else reply.header('etag', `"${data.revision}"`)
      return body
    }
    const etag = `W/"${hash(data.map((row) => row.id + row.updated_at + (row.user?.updated_at ?? '')).join())}"`
    const { url } = request.routeOptions
    const next = pagination.has_more ? `, <${url}?cursor=${pagination.cursor}>; rel="next"` : ''
    reply.header('etag', etag).header('link', `<${url}>; rel="first"${next}`)
    return body
  })
}

/** Writes that insert an event in their own statement. */
export const recordedWrites = {
  async createProduct(body, { userId, id: requestId }) {
    const {
      sku,
      name,
      description = null,
      price_amount,
      currency = 'USD',
      stock = 0,
      status = 'draft',
    } = body
    const [row] = await limitConcurrency(
      () => sql`
        with product as (
          insert into products
            (id, created_at, updated_at, revision, sku, name, description, price_amount, currency, stock, status, search)
          values (${uuid()}, now(), now(), 1,
            ${sku}, ${name}, ${description}, ${price_amount}, ${currency}, ${stock}, ${status}, ${buildSearchText(body)})
          returning id, sku, name, description, price_amount, currency, stock, status, created_at, updated_at, revision
        ), event as (
          insert into reference_outbox (type, resource_id, revision, columns, actor_id, request_id)
          select 'products.created', id, revision, to_jsonb(product) - 'revision', ${userId}, ${requestId} from product
        ) select * from product`,
    )
    return formatTimestamps(row)
  },

  async setStock(id, stock, { userId, id: requestId }) {
    const [row] = await limitConcurrency(
      () => sql`
        with former as (
          select id, stock from products where id = ${id} for update
        ), product as (
          update products set stock = ${stock}, revision = revision + 1, updated_at = clock_timestamp()
          from former where products.id = former.id
          returning products.id, sku, name, description, price_amount, currency, products.stock, status, created_at,
            updated_at, revision
        ), event as (
          insert into reference_outbox (type, resource_id, revision, columns, previous, actor_id, request_id)
          select 'products.updated', id, revision, to_jsonb(product) - 'revision',
            (select jsonb_build_object('stock', former.stock) from former), ${userId}, ${requestId} from product
        ) select * from product`,
    )
    return row && formatTimestamps(row)
  },
}
