/** Stock and prices: what an order takes of each product and gives back, with the products' rows locked in id order. */

import type { Connection } from '../../../drizzle/client/types.ts'
import type { OrderItemRow } from '../../../drizzle/tables.ts'
import type { Violation } from '../../../schemas/error.ts'
import { MAX_STOCK } from '../../../schemas/products.ts'
import { MAX_INTEGER } from '../../../schemas/types.ts'
import { apiError, invalidBody } from '../../errors/index.ts'

export type OrderItem = OrderItemRow

/** An item as a client asks for it. */
export interface Wanted {
  product_id: string
  quantity: number
}

interface ProductRow {
  id: string
  sku: string
  name: string
  price_amount: number
  currency: string
  status: string
  stock: number
}

/** What the items come to; these are columns of the order. */
export interface Reserved {
  items: OrderItem[]
  currency: string
  total_amount: number
}

// `order by` before `for update` locks in that order: two orders for the same products never wait for each other in a ring.
const LOCK = `select id, sku, name, price_amount, currency, status, stock from products
  where id = any($1::uuid[]) order by id for no key update`

const TAKE = `update products set stock = stock - taken.quantity, revision = revision + 1,
  updated_at = greatest(clock_timestamp(), updated_at + interval '1 microsecond')
  from unnest($1::uuid[], $2::bigint[]) as taken(id, quantity) where products.id = taken.id`

const array = (values: readonly (string | number)[]) => `{${values.join()}}`

async function lock(connection: Connection, ids: readonly string[]): Promise<Map<string, ProductRow>> {
  if (ids.length === 0) return new Map()
  const rows = (await connection.run(LOCK, [array(ids)])) as unknown as ProductRow[]
  return new Map(rows.map((row) => [row.id, row]))
}

/** @throws ApiError 409 where a product would have more stock than it can: then none of it is given back, or lost */
async function take(
  connection: Connection,
  products: ReadonlyMap<string, ProductRow>,
  deltas: ReadonlyMap<string, number>,
) {
  const changed = [...deltas].filter(([, quantity]) => quantity !== 0)
  if (changed.length === 0) return
  for (const [id, quantity] of changed) {
    const product = products.get(id)
    if (product && quantity < 0 && product.stock - quantity > MAX_STOCK) {
      const message = `The stock of product ${product.sku} would exceed ${MAX_STOCK}; it must be lowered first`
      throw apiError('RESOURCE_CONFLICT', { message })
    }
  }
  await connection.run(TAKE, [
    array(changed.map(([id]) => id)),
    array(changed.map(([, quantity]) => quantity)),
  ])
}

/** How much more of each product is held after than before. */
function deltasOf(before: readonly Wanted[], after: readonly Wanted[]): Map<string, number> {
  const deltas = new Map<string, number>()
  const add = (id: string, quantity: number) => deltas.set(id, (deltas.get(id) ?? 0) + quantity)
  for (const { product_id, quantity } of after) add(product_id, quantity)
  for (const { product_id, quantity } of before) add(product_id, -quantity)
  return deltas
}

const price = ({ sku, name, price_amount }: ProductRow, { product_id, quantity }: Wanted): OrderItem => ({
  product_id,
  quantity,
  sku,
  name,
  unit_amount: price_amount,
  total_amount: price_amount * quantity,
})

const wrong = (i: number, message: string, code: Violation['code'] = 'INVALID_VALUE'): Violation => ({
  field: `items.${i}.product_id`,
  message,
  code,
})

const isOrderable = (product: ProductRow | undefined): product is ProductRow => product?.status === 'active'

/**
 * Moves the stock from what an order held to what it wants, and prices what it did not hold in the same quantity.
 * An item that keeps product and quantity is not looked at anew.
 * @param held what the order holds now; none for a new one
 * @param currency of the items that are kept
 * @throws ApiError 422 for products that cannot be ordered, mixed currencies and too large a total; 409 for too little stock, or
 * more than a product can have
 */
export async function reserve(
  connection: Connection,
  held: readonly OrderItem[],
  items: readonly Wanted[],
  currency: string | undefined,
): Promise<Reserved> {
  const before = new Map(held.map((item) => [item.product_id, item]))
  const isKept = ({ product_id, quantity }: Wanted) => before.get(product_id)?.quantity === quantity
  const deltas = deltasOf(held, items)
  // Also those that stay as they are: the same transaction may yet release them, and then it would be out of order.
  const products = await lock(connection, [...deltas.keys()])

  const anew = items.map((item, i) => ({ item, i })).filter(({ item }) => !isKept(item))
  const orderable = (item: Wanted) => isKept(item) || isOrderable(products.get(item.product_id))
  // The currency is that of the first item, be it kept or new.
  const currencyOf = (item: Wanted) => (isKept(item) ? currency : products.get(item.product_id)?.currency)
  const first = items.find(orderable)
  const common = first ? currencyOf(first) : currency
  const unsuited = items.flatMap((item, i) => {
    if (!orderable(item)) return [wrong(i, 'there is no such product to order', 'NOT_FOUND')]
    return currencyOf(item) === common ? [] : [wrong(i, `is sold in another currency than ${common}`)]
  })
  if (unsuited.length > 0) throw invalidBody(unsuited)

  const priced = items.map((item) => {
    const kept = before.get(item.product_id)
    if (kept && isKept(item)) return kept
    const product = products.get(item.product_id)
    if (!product) throw new Error('An item was not priced')
    return price(product, item)
  })
  const total = priced.reduce((sum, { total_amount }) => sum + BigInt(total_amount), 0n)
  if (total > BigInt(MAX_INTEGER)) {
    throw invalidBody([{ field: 'items', message: `come to more than ${MAX_INTEGER}`, code: 'OUT_OF_RANGE' }])
  }

  const short = anew.flatMap(({ item, i }): Violation[] => {
    const stock = products.get(item.product_id)?.stock ?? 0
    const available = stock + (before.get(item.product_id)?.quantity ?? 0)
    if ((deltas.get(item.product_id) ?? 0) <= stock) return []
    return [
      { field: `items.${i}.quantity`, message: `only ${available} can be had`, code: 'INSUFFICIENT_STOCK' },
    ]
  })
  if (short.length > 0) {
    throw apiError('RESOURCE_CONFLICT', { message: 'There is too little stock', violations: short })
  }

  await take(connection, products, deltas)
  return { items: priced, currency: common ?? '', total_amount: Number(total) }
}

/**
 * Gives back all that an order holds.
 * @throws ApiError 409 where a product would have more stock than it can
 */
export async function release(connection: Connection, held: readonly OrderItem[]): Promise<void> {
  const deltas = deltasOf(held, [])
  await take(connection, await lock(connection, [...deltas.keys()]), deltas)
}

/** Keeps the list of products that an order names in step with its items. */
export async function link(
  connection: Connection,
  orderId: string,
  before: readonly Wanted[],
  after: readonly Wanted[],
): Promise<void> {
  const names = (items: readonly Wanted[]) => new Set(items.map(({ product_id }) => product_id))
  const [old, now] = [names(before), names(after)]
  const gone = [...old].filter((id) => !now.has(id))
  const come = [...now].filter((id) => !old.has(id))
  if (gone.length > 0) {
    await connection.run('delete from order_products where order_id = $1 and product_id = any($2::uuid[])', [
      orderId,
      array(gone),
    ])
  }
  if (come.length > 0) {
    await connection.run(
      'insert into order_products (order_id, product_id) select $1, unnest($2::uuid[]) on conflict do nothing',
      [orderId, array(come)],
    )
  }
}
