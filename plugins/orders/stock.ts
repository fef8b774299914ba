/** Reserves the stock of products for orders, prices the items, and releases the stock again. */
import { apiError, invalidBody, type Violation } from '@resource-api/api/errors'
import { MAX_INTEGER } from '@resource-api/api/schemas'
import { type Connection, isAnyOf, nextUpdatedAt, prepare } from '@resource-api/database'
import { type CommitHook, prepareChange } from '@resource-api/resources'
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

type ProductRow = Awaited<ReturnType<typeof readRows>>[number]

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

const readRows = prepare((db) =>
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
    .for('key share'),
)

type Products = ReadonlyMap<string, ProductRow>
/** Quantities by product. */
type Quantities = ReadonlyMap<string, number>

/**
 * Reads products, and locks them against their deletion alone. Others may change them: `takeStock` checks before the commit
 * what has been read.
 */
export async function readProducts(
  connection: Connection,
  requested: Iterable<{ product_id: string }>,
): Promise<Products> {
  const ids = [...new Set([...requested].map(({ product_id }) => product_id))]
  const rows = ids.length === 0 ? [] : await readRows(connection, { ids })
  return new Map(rows.map((row) => [row.id, row]))
}

/** What a transaction takes of the stock of a product. */
interface Taking {
  /** Negative if it gives back more than it takes. */
  quantity: number
  /** The most that it has taken at any time. */
  needed: number
  /** The product as items were priced; undefined if none was. */
  priced: ProductRow | undefined
}

type Takings = ReadonlyMap<string, Taking>

/** The parts of a store that change the stock. */
interface BeforeCommit {
  connection: Connection
  beforeCommit<V>(hook: CommitHook<V>, update: (former: V | undefined) => V): void
}

/** The values of the placeholders of a change of stocks: a list for each column. */
const taken = {
  id: sql`${sql.placeholder('ids')}::uuid[]`,
  quantity: sql`${sql.placeholder('quantities')}::bigint[]`,
  needed: sql`${sql.placeholder('needed')}::bigint[]`,
  price_amount: sql`${sql.placeholder('prices')}::bigint[]`,
  currency: sql`${sql.placeholder('currencies')}::text[]`,
}

/**
 * Subtracts quantities from the stocks of products that are still as they were read and have as much. It locks them in the
 * order of their ids, so that two transactions cannot deadlock. The event of each product has its former stock.
 */
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
        sql`(
          select given.* from unnest(${sql.join(Object.values(taken), sql`, `)})
            as given(${sql.raw(Object.keys(taken).join())})
          join ${products} as locked on locked.id = given.id
          order by locked.id for no key update of locked
        ) as taken`,
      )
      .where(
        sql`${products.id} = taken.id and ${products.stock} >= taken.needed
          and ${products.stock} - taken.quantity <= ${sql.raw(String(MAX_STOCK))}
          and (taken.price_amount is null or (${products.status} = 'active'
            and ${products.price_amount} = taken.price_amount and ${products.currency} = taken.currency))`,
      ),
  {
    returning: { id: products.id },
    former: { former_stock: sql`${products.stock} + taken.quantity` },
    previous: sql`json_build_object('stock', former_stock)`,
  },
)

/** Changes the stock of all products of a transaction right before its commit, so that they are locked briefly. */
const takeStock: CommitHook<Takings> = {
  table: products,
  async run(store, takings) {
    const changed = [...takings].filter(([, { quantity }]) => quantity !== 0)
    if (changed.length === 0) return true
    const list = <T>(get: (taking: Taking) => T) => changed.map(([, taking]) => get(taking))
    const rows = await subtractStock(store, {
      ids: changed.map(([id]) => id),
      quantities: list(({ quantity }) => quantity),
      needed: list(({ needed }) => needed),
      prices: list(({ priced }) => priced?.price_amount ?? null),
      currencies: list(({ priced }) => priced?.currency ?? null),
    })
    return rows.length === changed.length
  },
}

/** Adds up what orders take. */
class StockChanges {
  readonly takings: Map<string, Taking>
  readonly #products: Products

  constructor(rows: Products, former: Takings | undefined) {
    this.takings = new Map(former)
    this.#products = rows
  }

  /** Returns how much of a product there is, without what the transaction takes. */
  getStock(id: string): number {
    return (this.#products.get(id)?.stock ?? 0) - (this.takings.get(id)?.quantity ?? 0)
  }

  /**
   * Adds quantities by product.
   * @param priced the products whose prices are those of items
   * @throws ApiError 409 if the stock of a product would exceed its maximum
   */
  add(deltas: Quantities, priced: ReadonlySet<string> = new Set()): void {
    for (const [id, delta] of deltas) {
      if (delta === 0) continue
      const product = this.#products.get(id)
      if (product && delta < 0 && this.getStock(id) - delta > MAX_STOCK) {
        const message = `The stock of product ${product.sku} would exceed ${MAX_STOCK}; lower it first`
        throw apiError('RESOURCE_CONFLICT', { message })
      }
      const former = this.takings.get(id)
      const quantity = (former?.quantity ?? 0) + delta
      this.takings.set(id, {
        quantity,
        needed: Math.max(former?.needed ?? 0, quantity),
        // The first one: if another transaction changes the price between two items, the check fails.
        priced: former?.priced ?? (priced.has(id) ? product : undefined),
      })
    }
  }
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
function checkStock(lines: readonly Line[], deltas: Quantities, changes: StockChanges): void {
  const violations = lines.flatMap(({ item, held, kept }, i): Violation[] => {
    const stock = changes.getStock(item.product_id)
    if (kept || (deltas.get(item.product_id) ?? 0) <= stock) return []
    // The order may keep the quantity that it has reserved already.
    const message = `only ${stock + (held?.quantity ?? 0)} in stock`
    return [{ field: `items.${i}.quantity`, message, code: 'INSUFFICIENT_STOCK' }]
  })
  if (violations.length > 0) {
    throw apiError('RESOURCE_CONFLICT', { message: 'Not enough stock', violations })
  }
}

/** The change of the items of an order. */
interface ItemsChange {
  requested: readonly RequestedItem[]
  /** The items that the order has; none of a new one. */
  heldItems?: readonly OrderItem[]
  /** The currency of these items. */
  currency?: string
}

function reserve(
  changes: StockChanges,
  rows: Products,
  { requested, heldItems = [], currency }: ItemsChange,
): Reservation {
  const deltas = getDeltas(heldItems, requested)
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
  checkStock(lines, deltas, changes)
  const priced = lines.flatMap(({ item, kept }) => (kept ? [] : item.product_id))
  changes.add(deltas, new Set(priced))
  return { items, currency: commonCurrency ?? '', total_amount }
}

/**
 * Changes the reserved stock, right before the commit, from the items of orders to the requested ones, and prices the new
 * items.
 * @param rows the products of all items
 * @throws ApiError 422 for products that cannot be ordered, mixed currencies and too large a total; 409 for too little
 * stock, or if the stock of a product would exceed its maximum
 */
export function reserveStock(
  store: BeforeCommit,
  rows: Products,
  orders: readonly ItemsChange[],
): Reservation[] {
  const reservations: Reservation[] = []
  store.beforeCommit<Takings>(takeStock, (former) => {
    const changes = new StockChanges(rows, former)
    for (const order of orders) reservations.push(reserve(changes, rows, order))
    return changes.takings
  })
  return reservations
}

/**
 * Returns the quantities of the items to the stock of their products, right before the commit.
 * @throws ApiError 409 if the stock of a product would exceed its maximum
 */
export async function releaseStock(store: BeforeCommit, items: readonly OrderItem[]): Promise<void> {
  const rows = await readProducts(store.connection, items)
  store.beforeCommit<Takings>(takeStock, (former) => {
    const changes = new StockChanges(rows, former)
    changes.add(getDeltas(items, []))
    return changes.takings
  })
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
    .select(
      sql`select * from unnest(${sql.placeholder('order_ids')}::uuid[], ${sql.placeholder('product_ids')}::uuid[])`,
    )
    .onConflictDoNothing(),
)

/** Adds the products of orders to the join table `order_products`. */
export async function linkProducts(
  connection: Connection,
  orders: readonly { id: string; items: readonly RequestedItem[] }[],
): Promise<void> {
  const links = orders.flatMap(({ id, items }) => items.map(({ product_id }) => ({ id, product_id })))
  if (links.length === 0) return
  await link(connection, {
    order_ids: links.map(({ id }) => id),
    product_ids: links.map(({ product_id }) => product_id),
  })
}

/** Updates the join table `order_products` to the products of the new items of an order. */
export async function relinkProducts(
  connection: Connection,
  id: string,
  before: readonly RequestedItem[],
  after: readonly RequestedItem[],
): Promise<void> {
  const removed = new Set(before.map(({ product_id }) => product_id))
  const items = after.filter(({ product_id }) => !removed.delete(product_id))
  if (removed.size > 0) await unlink(connection, { order_id: id, product_ids: [...removed] })
  await linkProducts(connection, [{ id, items }])
}
