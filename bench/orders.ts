/** Creates products with a large stock, and the requests that order some of them. */
import { v7 as uuid } from 'uuid'
import type { Sql } from './database.ts'
import { PREFIX, postResource } from './targets/resource-api.ts'
import type { Call } from './targets/target.ts'

const PRODUCTS = 50
const MAX_STOCK = 1_000_000_000

/** Returns the numbers from 0 on. */
const count = (length: number) => Array.from({ length }, (_, i) => i)

/** Creates the products, and returns one order for each of them as the first item. */
export async function createOrderCalls(
  { base, headers }: { base: string; headers: Record<string, string> },
  itemsPerOrder: number,
): Promise<Call[]> {
  const ids: unknown[] = []
  for (const i of count(PRODUCTS)) {
    const product = { sku: `ORDERED-${uuid()}`, name: `Product ${i}`, price_amount: 500, currency: 'USD' }
    const body = { ...product, stock: MAX_STOCK, status: 'active' }
    ids.push((await postResource(base, '/products', body, headers)).id)
  }
  return count(PRODUCTS).map((first) => {
    const items = count(itemsPerOrder).map((i) => ({
      product_id: ids[(first + i * 3) % PRODUCTS],
      quantity: 1,
    }))
    const body = JSON.stringify({ items, note: 'bench' })
    return { method: 'POST', path: `${PREFIX}/orders`, headers, body }
  })
}

/** Deletes the orders of these requests, and their products. */
export async function deleteOrders(sql: Sql): Promise<void> {
  await sql`delete from orders where note = 'bench'`
  await sql`delete from products where sku like 'ORDERED-%'`
}
