/** Reserves the stock of products for orders, prices the items, and releases the stock again. */
import { type Connection, isAnyOf, nextUpdatedAt, prepare } from '@resource-api/database'
import { apiError, invalidBody, type Violation } from '@resource-api/http'
import { MAX_INTEGER } from '@resource-api/http/schemas'
import { type ChangeContext, prepareChange } from '@resource-api/resources'
import { and, eq, sql } from 'drizzle-orm'
import { orderProducts } from '../../drizzle/tables/orders.ts'
import { products } from '../../drizzle/tables/products.ts'
import type { OrderItem } from '../../schemas/orders.ts'
import { Product } from '../../schemas/products.ts'

const MAX_STOCK = Product.properties.stock.maximum ?? MAX_INTEGER

/** An item as a client sends it. */
interface RequestedItem {
  product_id: string
  quantity: number
}

type ProductRow = Awaited<ReturnType<typeof lockProducts>>[number]

/** A requested item with the rows that decide about it. */
interface Line {
  item: RequestedItem
  /** The item of the order for the same product, before the change. */
  held: OrderItem | undefined
  /** `held` if the quantity is the same, too: such an item keeps its price and is not checked again. */
  kept: OrderItem | undefined
  product: ProductRow | undefined
  /** Undefined if the product cannot be ordered. */
  currency: string | undefined
}

/** Columns of the order. */
export interface Reservation {
  items: OrderItem[]
  currency: string
  total_amount: number
}

/** The order makes all writes lock products in the same order, so that two of them cannot deadlock. */
const lockProducts = prepare((db) =>
  db
    .select({
      id: products.id,
      sku: products.sku,
      name: products.name,
      price_amount: products.price_amount,
      currency: products.currency,
      status: products.status,
      stock: products.stock,
    })
    .from(products)
    .where(isAnyOf(products.id, sql.placeholder('ids')))
    .orderBy(products.id)
    .for('no key update'),
)

/** Subtracts quantities from stocks. The event of each product has its former stock. */
const subtractStock = prepareChange(
  products,
  'updated',
  (db) =>
    db
      .update(products)
      .set({
        stock: sql`${products.stock} - taken.quantity`,
        revision: sql`${products.revision} + 1`,
        updated_at: nextUpdatedAt(products),
      })
      .from(
        sql`unnest(${sql.placeholder('ids')}::uuid[], ${sql.placeholder('quantities')}::bigint[]) as taken(id, quantity)`,
      )
      .where(sql`${products.id} = taken.id`),
  {
    former: { former_stock: sql`${products.stock} + taken.quantity` },
    previous: sql`json_build_object('stock', former_stock)`,
  },
)

type Products = ReadonlyMap<string, ProductRow>
/** Quantities by product. */
type Quantities = ReadonlyMap<string, number>

/** Locks products until the transaction ends. */
async function readProducts(connection: Connection, ids: readonly string[]): Promise<Products> {
  const rows = ids.length === 0 ? [] : await lockProducts(connection, { ids })
  return new Map(rows.map((row) => [row.id, row]))
}

/**
 * Subtracts a quantity from the stock of each product; a negative quantity adds to it.
 * @throws ApiError 409 if the stock of a product would exceed its maximum; then no stock changes
 */
async function takeStock(context: ChangeContext, rows: Products, deltas: Quantities): Promise<void> {
  const ids: string[] = []
  const quantities: number[] = []
  for (const [id, quantity] of deltas) {
    if (quantity === 0) continue
    const product = rows.get(id)
    if (product && quantity < 0 && product.stock - quantity > MAX_STOCK) {
      const message = `The stock of product ${product.sku} would exceed ${MAX_STOCK}; lower it first`
      throw apiError('RESOURCE_CONFLICT', { message })
    }
    ids.push(id)
    quantities.push(quantity)
  }
  if (ids.length > 0) await subtractStock(context, { ids, quantities })
}

/** Returns the quantity of each product after a change, minus the quantity before. No product stands twice in a list. */
function getDeltas(before: readonly RequestedItem[], after: readonly RequestedItem[]): Quantities {
  const deltas = new Map<string, number>()
  for (const { product_id, quantity } of after) deltas.set(product_id, quantity)
  for (const { product_id, quantity } of before) {
    deltas.set(product_id, (deltas.get(product_id) ?? 0) - quantity)
  }
  return deltas
}

/**
 * Returns the currency of the items: that of the first one that can be ordered, kept or new.
 * @param keptCurrency the currency of the kept items
 * @throws ApiError 422 for products that cannot be ordered, and for mixed currencies
 */
function checkProducts(lines: readonly Line[], keptCurrency: string | undefined): string | undefined {
  const common = lines.find(({ currency }) => currency !== undefined)?.currency ?? keptCurrency
  const violations = lines.flatMap(({ currency }, i): Violation[] => {
    if (currency !== undefined && currency === common) return []
    const field = `items.${i}.product_id`
    if (currency === undefined) {
      return [{ field, message: 'must be the id of an active product', code: 'NOT_FOUND' }]
    }
    const message = `must be a product priced in ${common}, as the other items are`
    return [{ field, message, code: 'INVALID_VALUE' }]
  })
  if (violations.length > 0) throw invalidBody(violations)
  return common
}

function priceItem({ item: { product_id, quantity }, kept, product }: Line): OrderItem {
  if (kept) return kept
  if (!product) throw new Error(`Product ${product_id} was not read`)
  const { sku, name, price_amount } = product
  const total_amount = price_amount * quantity
  return { product_id, quantity, sku, name, unit_amount: price_amount, total_amount }
}

/** @throws ApiError 422 if the total cannot be represented as a JSON number */
function sumTotal(items: readonly OrderItem[]): number {
  const total = items.reduce((sum, { total_amount }) => sum + BigInt(total_amount), 0n)
  if (total <= BigInt(MAX_INTEGER)) return Number(total)
  const message = `must not cost more than ${MAX_INTEGER} in total`
  throw invalidBody([{ field: 'items', message, code: 'OUT_OF_RANGE' }])
}

/** @throws ApiError 409 with a violation for each item that needs more than the stock of its product */
function checkStock(lines: readonly Line[], deltas: Quantities): void {
  const violations = lines.flatMap(({ item, held, kept, product }, i): Violation[] => {
    const stock = product?.stock ?? 0
    if (kept || (deltas.get(item.product_id) ?? 0) <= stock) return []
    // The order may keep the quantity that it has reserved already.
    const message = `only ${stock + (held?.quantity ?? 0)} in stock`
    return [{ field: `items.${i}.quantity`, message, code: 'INSUFFICIENT_STOCK' }]
  })
  if (violations.length > 0) {
    throw apiError('RESOURCE_CONFLICT', { message: 'Not enough stock', violations })
  }
}

/**
 * Changes the reserved stock from the items of an order to the requested ones, and prices the new items.
 * @param heldItems the items that the order has now; empty for a new order
 * @param currency the currency of these items
 * @throws ApiError 422 for products that cannot be ordered, mixed currencies and too large a total; 409 for too little
 * stock, or if the stock of a product would exceed its maximum
 */
export async function reserveStock(
  store: ChangeContext,
  heldItems: readonly OrderItem[],
  requested: readonly RequestedItem[],
  currency: string | undefined,
): Promise<Reservation> {
  const deltas = getDeltas(heldItems, requested)
  // Including products of kept items: if this transaction releases them later, they would be locked out of order.
  const rows = await readProducts(store.connection, [...deltas.keys()])
  const heldByProduct = new Map(heldItems.map((item) => [item.product_id, item]))
  const lines = requested.map((item): Line => {
    const held = heldByProduct.get(item.product_id)
    const kept = held?.quantity === item.quantity ? held : undefined
    const product = rows.get(item.product_id)
    const isActive = product?.status === 'active'
    return { item, held, kept, product, currency: kept ? currency : isActive ? product.currency : undefined }
  })

  const commonCurrency = checkProducts(lines, currency)
  const items = lines.map(priceItem)
  const total_amount = sumTotal(items)
  checkStock(lines, deltas)
  await takeStock(store, rows, deltas)
  return { items, currency: commonCurrency ?? '', total_amount }
}

/**
 * Returns the quantities of the items to the stock of their products.
 * @throws ApiError 409 if the stock of a product would exceed its maximum
 */
export async function releaseStock(store: ChangeContext, items: readonly OrderItem[]): Promise<void> {
  const deltas = getDeltas(items, [])
  await takeStock(store, await readProducts(store.connection, [...deltas.keys()]), deltas)
}

const unlink = prepare((db) =>
  db
    .delete(orderProducts)
    .where(
      and(
        eq(orderProducts.order_id, sql.placeholder('order_id')),
        isAnyOf(orderProducts.product_id, sql.placeholder('product_ids')),
      ),
    ),
)

const link = prepare((db) =>
  db
    .insert(orderProducts)
    .select(sql`select ${sql.placeholder('order_id')}, unnest(${sql.placeholder('product_ids')}::uuid[])`)
    .onConflictDoNothing(),
)

/** Updates the join table `order_products` to the products of the new items. */
export async function linkProducts(
  connection: Connection,
  orderId: string,
  before: readonly RequestedItem[],
  after: readonly RequestedItem[],
): Promise<void> {
  const removed = new Set(before.map(({ product_id }) => product_id))
  const added: string[] = []
  for (const { product_id } of after) {
    if (!removed.delete(product_id)) added.push(product_id)
  }
  if (removed.size > 0) await unlink(connection, { order_id: orderId, product_ids: [...removed] })
  if (added.length > 0) await link(connection, { order_id: orderId, product_ids: added })
}
