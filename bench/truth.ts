/** What a right answer is, asked of the database itself. */
import type { Sql } from './database.ts'
import type { Position, Resource } from './targets/target.ts'

const text = (at: string) => `to_char(${at} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as ${at}`
const dates = `${text('created_at')}, ${text('updated_at')}`

const PRODUCT = `id, sku, name, description, price_amount::float8, currency, stock::float8, status, ${dates}`
const USER = `id, name, email, role, status, ${dates}`
const ORDER = `id, number, user_id, items, shipping_address, note, status, currency, total_amount::float8, ${dates}`
const NEWEST = 'order by orders.created_at desc, orders.id desc limit 20'

export function createTruth(sql: Sql) {
  const ask = async (query: string, values: string[] = []): Promise<Resource[]> => [
    ...(await sql.unsafe<Resource[]>(query, values)),
  ]
  return {
    product: (id: string) => ask(`select ${PRODUCT} from products where id = $1`, [id]),
    newestProducts: () =>
      ask(`select ${PRODUCT} from products order by products.created_at desc, products.id desc limit 20`),
    usersAfter: ({ created_at, id }: Position) =>
      ask(
        `select ${USER} from users where status = 'active' and (users.created_at, users.id) < ($1, $2)
         order by users.created_at desc, users.id desc limit 20`,
        [created_at, id],
      ),
    newestOrdersWithUsers: () =>
      ask(
        `select ${ORDER}, (select to_json(u) from (select ${USER} from users where users.id = orders.user_id) u) as user
         from orders ${NEWEST}`,
      ),
    /** The product with a number in its name, with what is not on the wire. */
    created: (number: string) =>
      ask(`select ${PRODUCT}, search from products where sku = $1`, [`BENCH-${number}`]),
  }
}

export type Truth = ReturnType<typeof createTruth>
