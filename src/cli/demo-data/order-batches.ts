/** The batches of demo orders, whose numbers come from the sequence of the server. */
import type { Database } from '../../../drizzle/client/index.ts'
import { queryRows } from '../../../drizzle/client/query-rows.ts'
import { orderProducts, orders } from '../../../drizzle/tables.ts'
import { insertRows } from './insert.ts'
import { buildOrder } from './orders.ts'
import type { SeedContext } from './seed-context.ts'
import { type Batch, sliceIndices } from './seed-step.ts'

/** Writes orders and their links to products in one transaction, so that no reader sees one without the other. */
export function createOrderBatches(
  context: SeedContext,
  firstNumber: number,
  onItems: (batch: number, items: number) => void,
): Batch[] {
  return sliceIndices(context.counts.orders).map((indices, batch) => async (tx) => {
    const built = indices().map((index) => buildOrder(context, index, firstNumber + index))
    const orderRows = built.map(({ order }) => order)
    const linkRows = built.flatMap(({ links }) => links)
    await insertRows(tx, orders, orderRows)
    await insertRows(tx, orderProducts, linkRows)
    onItems(batch, linkRows.length)
    return orderRows.length + linkRows.length
  })
}

/**
 * Draws numbers for orders, which follow each other. If a running server has drawn one in between, all are drawn again:
 * order numbers may have gaps, and a sequence cannot be locked on Citus.
 * @returns the first one
 */
export async function reserveOrderNumbers(database: Database, count: number): Promise<number> {
  for (;;) {
    const [drawn] = await queryRows<{ first: number; last: number }>(
      database,
      `select coalesce(min(number), 1) as first, coalesce(max(number), 0) as last
       from (select nextval('order_numbers') as number from generate_series(1, $1::bigint)) as drawn`,
      [count],
    )
    if (drawn && drawn.last - drawn.first + 1 === count) return drawn.first
  }
}
