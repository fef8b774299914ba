/** Reads from the database the rows that a correct response contains. */
import type { Sql } from './database.ts'
import type { Position } from './rows.ts'
import type { Resource } from './targets/target.ts'

const toTimestamp = (column: string) =>
  `to_char(${column} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as ${column}`
const TIMESTAMPS = `${toTimestamp('created_at')}, ${toTimestamp('updated_at')}`

const PRODUCT = `id, sku, name, description, price_amount::float8, currency, stock::float8, status, ${TIMESTAMPS}`
const USER = `id, name, email, role, status, ${TIMESTAMPS}`
const ORDER = `id, number, user_id, items, shipping_address, note, status, currency, total_amount::float8, ${TIMESTAMPS}`

export function createExpectedRows(sql: Sql) {
  const query = async (statement: string, values: string[] = []): Promise<Resource[]> => [
    ...(await sql.unsafe<Resource[]>(statement, values)),
  ]
  return {
    product: (id: string) => query(`select ${PRODUCT} from products where id = $1`, [id]),
    newestProducts: () =>
      query(`select ${PRODUCT} from products order by products.created_at desc, products.id desc limit 20`),
    usersAfter: ({ created_at, id }: Position) =>
      query(
        `select ${USER} from users where status = 'active' and (users.created_at, users.id) < ($1, $2)
         order by users.created_at desc, users.id desc limit 20`,
        [created_at, id],
      ),
    newestOrdersWithUsers: () =>
      query(
        `select ${ORDER}, (select to_json(u) from (select ${USER} from users where users.id = orders.user_id) u) as user
         from orders order by orders.created_at desc, orders.id desc limit 20`,
      ),
    order: (id: string) => query(`select ${ORDER} from orders where id = $1`, [id]),
    /** Reads the product whose SKU contains the number, with its search column. */
    createdProduct: (number: string) =>
      query(`select ${PRODUCT}, search from products where sku = $1`, [`BENCH-${number}`]),
  }
}

export type ExpectedRows = ReturnType<typeof createExpectedRows>
