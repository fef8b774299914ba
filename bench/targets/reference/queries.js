/** The queries of the workloads as hand-written, prepared SQL with postgres.js. */
import postgres from 'postgres'
import { v7 as uuid } from 'uuid'
import { createSemaphore } from './semaphore.js'

const poolSize = Number(process.env.POOL_SIZE)

// Integers are parsed as numbers. Timestamps stay text, which costs a third of the CPU time of a Date.
export const sql = postgres(process.env.DATABASE_URL, {
  max: poolSize,
  connection: { TimeZone: 'UTC' },
  types: {
    integers: { to: 20, from: [20], serialize: String, parse: Number },
    timestamps: { to: 1184, from: [1184], serialize: String, parse: (text) => text },
  },
})

export const limitConcurrency = createSemaphore(poolSize)

/** Converts `2026-11-20 08:15:30.123456+00` to RFC 3339 with milliseconds. */
function toRfc3339(text) {
  const fraction = text.charAt(19) === '.' ? text.slice(20, -3).slice(0, 3) : ''
  return `${text.slice(0, 10)}T${text.slice(11, 19)}.${fraction.padEnd(3, '0')}Z`
}

/** Converts the timestamps of a row in place. */
export function formatTimestamps(row) {
  row.created_at = toRfc3339(row.created_at)
  row.updated_at = toRfc3339(row.updated_at)
  return row
}

const PAGE_SIZE = 20

const createCursor = ({ created_at, id }) =>
  Buffer.from(JSON.stringify([created_at, id])).toString('base64url')

/** Builds a page from up to PAGE_SIZE + 1 rows; the last one shows that there is another page. */
function buildPage(rows) {
  const hasMore = rows.length > PAGE_SIZE
  const pageRows = hasMore ? rows.slice(0, PAGE_SIZE) : rows
  const cursor = hasMore ? createCursor(pageRows[PAGE_SIZE - 1]) : null
  return { data: pageRows.map(formatTimestamps), pagination: { cursor, has_more: hasMore } }
}

/** Returns the product with its revision, or undefined. */
export async function readProduct(id) {
  const [row] = await limitConcurrency(
    () => sql`
      select id, sku, name, description, price_amount, currency, stock, status, created_at, updated_at, revision
      from products where id = ${id}`,
  )
  return row && formatTimestamps(row)
}

export async function listProducts() {
  const rows = await limitConcurrency(
    () => sql`
      select id, sku, name, description, price_amount, currency, stock, status, created_at, updated_at
      from products order by created_at desc, id desc limit 21`,
  )
  return buildPage(rows)
}

const selectFirstUsers = (status) => sql`
  select id, name, email, role, status, created_at, updated_at from users
  where status = ${status} order by created_at desc, id desc limit 21`

const selectUsersAfter = (status, [created, id]) => sql`
  select id, name, email, role, status, created_at, updated_at from users
  where status = ${status} and (created_at, id) < (${created}, ${id}) order by created_at desc, id desc limit 21`

export async function listUsers(status, cursor) {
  const position = cursor && JSON.parse(Buffer.from(cursor, 'base64url').toString())
  return buildPage(
    await limitConcurrency(() => (position ? selectUsersAfter(status, position) : selectFirstUsers(status))),
  )
}

/** Runs two statements: one for the orders, one for all of their users. */
export async function listOrdersWithUsers() {
  const page = buildPage(
    await limitConcurrency(
      () => sql`
        select id, number, user_id, items, shipping_address, note, status, currency, total_amount, created_at, updated_at
        from orders order by created_at desc, id desc limit 21`,
    ),
  )
  const ids = [...new Set(page.data.map(({ user_id }) => user_id))]
  const users = await limitConcurrency(
    () => sql`
      select id, name, email, role, status, created_at, updated_at from users where id = any(${ids}::uuid[])`,
  )
  const byId = new Map(users.map((row) => [row.id, formatTimestamps(row)]))
  for (const row of page.data) row.user = byId.get(row.user_id) ?? null
  return page
}

/** Returns the text of the search column. */
export const buildSearchText = ({ sku, name, description }) =>
  [sku, name, ...(description ? [description] : [])].join('\n').toLowerCase()

export async function createProduct(body) {
  const { sku, name, description = null, price_amount, currency = 'USD', stock = 0, status = 'draft' } = body
  const [row] = await limitConcurrency(
    () => sql`
      insert into products
        (id, created_at, updated_at, revision, sku, name, description, price_amount, currency, stock, status, search)
      values (${uuid()}, now(), now(), 1,
        ${sku}, ${name}, ${description}, ${price_amount}, ${currency}, ${stock}, ${status}, ${buildSearchText(body)})
      returning id, sku, name, description, price_amount, currency, stock, status, created_at, updated_at`,
  )
  return formatTimestamps(row)
}

/** Updates the stock. Returns the product, or undefined. */
export async function setStock(id, stock) {
  const [row] = await limitConcurrency(
    () => sql`
      update products set stock = ${stock}, revision = revision + 1, updated_at = clock_timestamp()
      where id = ${id}
      returning id, sku, name, description, price_amount, currency, stock, status, created_at, updated_at`,
  )
  return row && formatTimestamps(row)
}

export const createMeta = () => ({ timestamp: new Date().toISOString() })
