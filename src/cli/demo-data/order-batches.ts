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

/** Reserves numbers for `count` orders; a running server may take numbers at the same time. @returns the first one */
export function reserveOrderNumbers(database: Database, count: number): Promise<number> {
  return database.transaction(async (tx) => {
    // An insert waits for this lock before it takes a number.
    await tx.run('lock table orders in exclusive mode')
    const [row] = await queryRows<{ first: number }>(
      tx,
      'select last_value + case when is_called then 1 else 0 end as first from order_numbers',
    )
    const first = row?.first ?? 1
    await tx.run("select setval('order_numbers', $1)", [first + count - 1])
    return first
  })
}
