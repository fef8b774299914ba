/** The workloads as hand-written, prepared SQL with postgres.js. */
import postgres from 'postgres'
import { v7 as uuid } from 'uuid'
import { createGate } from './gate.js'

const size = Number(process.env.POOL_SIZE)

// Integers as numbers, and timestamps as text: 21 rows take 14 µs to serialize, with Date objects 41 µs.
const sql = postgres(process.env.DATABASE_URL, {
  max: size,
  connection: { TimeZone: 'UTC' },
  types: {
    integers: { to: 20, from: [20], serialize: String, parse: Number },
    moments: { to: 1184, from: [1184], serialize: String, parse: (text) => text },
  },
})

const gate = createGate(size)

/** `2026-11-20 08:15:30.123456+00` as RFC 3339 with milliseconds. */
function moment(text) {
  const fraction = text.charAt(19) === '.' ? text.slice(20, -3).slice(0, 3) : ''
  return `${text.slice(0, 10)}T${text.slice(11, 19)}.${fraction.padEnd(3, '0')}Z`
}

function dated(row) {
  row.created_at = moment(row.created_at)
  row.updated_at = moment(row.updated_at)
  return row
}

const PAGE = 20

const cursorAfter = ({ created_at, id }) =>
  Buffer.from(JSON.stringify([created_at, id])).toString('base64url')

/** A page of rows, of which there is one more where there is another page. */
function page(rows) {
  const more = rows.length > PAGE
  const found = more ? rows.slice(0, PAGE) : rows
  const cursor = more ? cursorAfter(found[PAGE - 1]) : null
  return { data: found.map(dated), pagination: { cursor, has_more: more } }
}

/** @returns the product with its revision, or undefined */
export async function readProduct(id) {
  const [row] = await gate(
    () => sql`
      select id, sku, name, description, price_amount, currency, stock, status, created_at, updated_at, revision
      from products where id = ${id}`,
  )
  return row && dated(row)
}

export async function listProducts() {
  const rows = await gate(
    () => sql`
      select id, sku, name, description, price_amount, currency, stock, status, created_at, updated_at
      from products order by created_at desc, id desc limit 21`,
  )
  return page(rows)
}

const firstUsers = (status) => sql`
  select id, name, email, role, status, created_at, updated_at from users
  where status = ${status} order by created_at desc, id desc limit 21`

const usersAfter = (status, [created, id]) => sql`
  select id, name, email, role, status, created_at, updated_at from users
  where status = ${status} and (created_at, id) < (${created}, ${id}) order by created_at desc, id desc limit 21`

export async function listUsers(status, cursor) {
  const position = cursor && JSON.parse(Buffer.from(cursor, 'base64url').toString())
  return page(await gate(() => (position ? usersAfter(status, position) : firstUsers(status))))
}

/** Two statements, whatever the number of orders. */
export async function listOrdersWithUsers() {
  const found = page(
    await gate(
      () => sql`
        select id, number, user_id, items, shipping_address, note, status, currency, total_amount, created_at, updated_at
        from orders order by created_at desc, id desc limit 21`,
    ),
  )
  const ids = [...new Set(found.data.map(({ user_id }) => user_id))]
  const users = await gate(
    () => sql`
      select id, name, email, role, status, created_at, updated_at from users where id = any(${ids}::uuid[])`,
  )
  const byId = new Map(users.map((row) => [row.id, dated(row)]))
  for (const row of found.data) row.user = byId.get(row.user_id) ?? null
  return found
}

export async function createProduct(body) {
  const { sku, name, description = null, price_amount, currency = 'USD', stock = 0, status = 'draft' } = body
  const search = `${sku}\n${name}${description === null ? '' : `\n${description}`}`.toLowerCase()
  const [row] = await gate(
    () => sql`
      insert into products
        (id, created_at, updated_at, revision, sku, name, description, price_amount, currency, stock, status, search)
      values (${uuid()}, now(), now(), 1,
        ${sku}, ${name}, ${description}, ${price_amount}, ${currency}, ${stock}, ${status}, ${search})
      returning id, sku, name, description, price_amount, currency, stock, status, created_at, updated_at`,
  )
  return dated(row)
}

/** @returns the product, or undefined */
export async function setStock(id, stock) {
  const [row] = await gate(
    () => sql`
      update products set stock = ${stock}, revision = revision + 1, updated_at = clock_timestamp()
      where id = ${id}
      returning id, sku, name, description, price_amount, currency, stock, status, created_at, updated_at`,
  )
  return row && dated(row)
}

export const meta = () => ({ timestamp: new Date().toISOString() })
