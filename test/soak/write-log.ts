/** Records at the client which writes a server acknowledged, and finds the acknowledged writes that are missing. */
import type { Client, Json } from '../helpers/app.ts'

/** A product that a client created. */
export interface ProductEntry {
  id: string
  price: number
  isDeleted: boolean
  /** A change whose response is missing: the server may have made it or not. */
  pending?: { price: number } | 'deletion'
}

export interface WriteLog {
  products: ProductEntry[]
  /** Quantities of acknowledged orders, by their id. */
  orders: Map<string, number>
  /** Number of acknowledged writes. */
  acknowledged: number
  /** Number of writes without a response. */
  inDoubt: number
  /** Number of responses other than success. */
  refused: number
}

export const createWriteLog = (): WriteLog => ({
  products: [],
  orders: new Map(),
  acknowledged: 0,
  inDoubt: 0,
  refused: 0,
})

/** Reads the rows of a collection, newest first, up to the first page without a row that `isNew` accepts. */
export async function readNewestRows(
  client: Client,
  path: string,
  isNew: (row: Json) => boolean,
): Promise<Json[]> {
  const rows: Json[] = []
  for (let cursor = ''; ; ) {
    const { status, body } = await client.get(`${path}?limit=100&cursor=${encodeURIComponent(cursor)}`)
    if (status !== 200) throw new Error(`GET ${path} returned ${status}`)
    const newRows = body.data.filter(isNew)
    rows.push(...newRows)
    if (newRows.length === 0 || !body.pagination.has_more) return rows
    cursor = body.pagination.cursor
  }
}

/** Returns what differs between a product's entry and its row, or undefined. */
function checkProduct(entry: ProductEntry, row: Json | undefined): string | undefined {
  const { id, price, isDeleted, pending } = entry
  if (isDeleted) return row && `product ${id} was deleted and still exists`
  if (!row) return pending === 'deletion' ? undefined : `product ${id} is lost`
  const allowed = typeof pending === 'object' ? [price, pending.price] : [price]
  return allowed.includes(row.price_amount)
    ? undefined
    : `product ${id} costs ${row.price_amount}, not ${allowed}`
}

/** Returns a line for each acknowledged write that the rows do not contain. */
export function findLostWrites(
  { products, orders }: WriteLog,
  rows: { products: Json[]; orders: Json[] },
): string[] {
  const rowsById = new Map(rows.products.map((row) => [row.id, row]))
  const orderIds = new Set(rows.orders.map(({ id }) => id))
  return [
    ...products.flatMap((entry) => checkProduct(entry, rowsById.get(entry.id)) ?? []),
    ...[...orders.keys()].filter((id) => !orderIds.has(id)).map((id) => `order ${id} is lost`),
  ]
}
