/** Records what a server acknowledged to its clients, outside of the server, to detect lost writes. */
import type { Client, Json } from '../helpers/app.ts'

/** A product that a client made; what is in doubt may have happened or not, since no answer came. */
export interface Entry {
  id: string
  price: number
  gone: boolean
  doubt?: { price: number } | 'removal'
}

export interface Ledger {
  products: Entry[]
  /** Ids of orders that were acknowledged, with their quantities. */
  orders: Map<string, number>
  /** Writes that were acknowledged. */
  acknowledged: number
  /** Writes without an answer. */
  inDoubt: number
  /** Answers that were none of success. */
  refused: number
}

export const createLedger = (): Ledger => ({
  products: [],
  orders: new Map(),
  acknowledged: 0,
  inDoubt: 0,
  refused: 0,
})

/** A collection's rows from the newest on, until a page holds none that `isNew`. */
export async function newest(client: Client, path: string, isNew: (row: Json) => boolean): Promise<Json[]> {
  const found: Json[] = []
  for (let cursor = ''; ; ) {
    const { status, body } = await client.get(`${path}?limit=100&cursor=${encodeURIComponent(cursor)}`)
    if (status !== 200) throw new Error(`GET ${path} is ${status}`)
    const fresh = body.data.filter(isNew)
    found.push(...fresh)
    if (fresh.length === 0 || !body.pagination.has_more) return found
    cursor = body.pagination.cursor
  }
}

/** What is wrong with a product, if anything, after all that was said about it. */
function judge(entry: Entry, row: Json | undefined): string | undefined {
  const { id, price, gone, doubt } = entry
  if (gone) return row && `product ${id} is back`
  if (!row) return doubt === 'removal' ? undefined : `product ${id} is lost`
  const may = typeof doubt === 'object' ? [price, doubt.price] : [price]
  return may.includes(row.price_amount) ? undefined : `product ${id} costs ${row.price_amount}, not ${may}`
}

/** Holds the rows against the ledger: a line for everything acknowledged that is not there. */
export function compare({ products, orders }: Ledger, rows: { products: Json[]; orders: Json[] }): string[] {
  const byId = new Map(rows.products.map((row) => [row.id, row]))
  const ordered = new Set(rows.orders.map(({ id }) => id))
  return [
    ...products.flatMap((entry) => judge(entry, byId.get(entry.id)) ?? []),
    ...[...orders.keys()].filter((id) => !ordered.has(id)).map((id) => `order ${id} is lost`),
  ]
}
