/** A client that sends one write after the other and records each response, until the server is gone. */
import type { Client, Reply } from '../helpers/app.ts'
import type { ProductEntry, WriteLog } from './write-log.ts'

let skuCount = 0

/** A busy machine can delay the event loop until the server refuses requests; such refusals are not counted. */
const isOverload = ({ status, body }: Reply) =>
  status === 503 && body?.error?.message === 'The service is overloaded'

/** Returns the response, or undefined if the connection broke. */
async function recordResponse(
  log: WriteLog,
  response: Promise<Reply>,
  successStatus: number,
): Promise<Reply | undefined> {
  try {
    const reply = await response
    if (reply.status === successStatus) log.acknowledged++
    else if (!isOverload(reply)) log.refused++
    return reply
  } catch {
    log.inDoubt++
    return undefined
  }
}

/** Sends one write. Returns whether the server responded. */
type Write = (client: Client, log: WriteLog, sharedProductId: string, own: ProductEntry[]) => Promise<boolean>

const createProduct: Write = async (client, log, _sharedProductId, own) => {
  const price = Math.floor(Math.random() * 1_000)
  const body = { sku: `SOAK-${process.pid}-${skuCount++}`, name: 'Soak product', price_amount: price }
  const reply = await recordResponse(log, client.post('/products', body), 201)
  if (reply?.status === 201) {
    const entry: ProductEntry = { id: reply.body.data.id, price, isDeleted: false }
    own.push(entry)
    log.products.push(entry)
  }
  return reply !== undefined
}

const updatePrice: Write = async (client, log, _sharedProductId, own) => {
  const entry = own[Math.floor(Math.random() * own.length)]
  if (!entry) return true
  const price = entry.price + 1
  entry.pending = { price }
  const response = client.patch(`/products/${entry.id}`, { price_amount: price })
  const reply = await recordResponse(log, response, 200)
  if (reply?.status === 200) {
    entry.price = price
    delete entry.pending
  }
  return reply !== undefined
}

const deleteProduct: Write = async (client, log, _sharedProductId, own) => {
  const entry = own.pop()
  if (!entry) return true
  entry.pending = 'deletion'
  const reply = await recordResponse(log, client.delete(`/products/${entry.id}`), 204)
  if (reply?.status === 204) {
    entry.isDeleted = true
    delete entry.pending
  }
  return reply !== undefined
}

const createOrder: Write = async (client, log, sharedProductId) => {
  const quantity = 1 + Math.floor(Math.random() * 3)
  const body = { items: [{ product_id: sharedProductId, quantity }] }
  const reply = await recordResponse(log, client.post('/orders', body), 201)
  if (reply?.status === 201) log.orders.set(reply.body.data.id, quantity)
  return reply !== undefined
}

/** Each write is repeated in proportion to its frequency. */
const WRITES = [
  ...[createProduct, createProduct, createProduct, updatePrice, updatePrice],
  ...[createOrder, createOrder, createOrder, deleteProduct],
]

/** Writes until the server does not respond. All writers order the product `sharedProductId`. */
export async function runWriter(client: Client, log: WriteLog, sharedProductId: string): Promise<void> {
  const own: ProductEntry[] = []
  for (let isUp = true; isUp; ) {
    const write = WRITES[Math.floor(Math.random() * WRITES.length)] ?? createProduct
    isUp = await write(client, log, sharedProductId, own)
  }
}
