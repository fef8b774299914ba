/** A client that writes continuously and records each reply until the server is gone. */
import type { Client, Reply } from '../helpers/app.ts'
import type { Entry, Ledger } from './ledger.ts'

let skus = 0

/** A busy machine may stop a server for longer than its loop may be late; that is no refusal of its own. */
const isOverload = ({ status, body }: Reply) =>
  status === 503 && body?.error?.message === 'The service is overloaded'

/** The answer, or undefined where the connection broke first. */
async function answer(ledger: Ledger, sent: Promise<Reply>, success: number): Promise<Reply | undefined> {
  try {
    const reply = await sent
    if (reply.status === success) ledger.acknowledged++
    else if (!isOverload(reply)) ledger.refused++
    return reply
  } catch {
    ledger.inDoubt++
    return undefined
  }
}

/** @returns whether the server is still there */
type Act = (client: Client, ledger: Ledger, shared: string, own: Entry[]) => Promise<boolean>

const create: Act = async (client, ledger, _shared, own) => {
  const price = Math.floor(Math.random() * 1_000)
  const body = { sku: `SOAK-${process.pid}-${skus++}`, name: 'Written in haste', price_amount: price }
  const reply = await answer(ledger, client.post('/products', body), 201)
  if (reply?.status === 201) {
    const entry: Entry = { id: reply.body.data.id, price, gone: false }
    own.push(entry)
    ledger.products.push(entry)
  }
  return reply !== undefined
}

const update: Act = async (client, ledger, _shared, own) => {
  const entry = own[Math.floor(Math.random() * own.length)]
  if (!entry) return true
  const price = entry.price + 1
  entry.doubt = { price }
  const reply = await answer(ledger, client.patch(`/products/${entry.id}`, { price_amount: price }), 200)
  if (reply?.status === 200) {
    entry.price = price
    delete entry.doubt
  }
  return reply !== undefined
}

const remove: Act = async (client, ledger, _shared, own) => {
  const entry = own.pop()
  if (!entry) return true
  entry.doubt = 'removal'
  const reply = await answer(ledger, client.delete(`/products/${entry.id}`), 204)
  if (reply?.status === 204) {
    entry.gone = true
    delete entry.doubt
  }
  return reply !== undefined
}

const order: Act = async (client, ledger, shared) => {
  const quantity = 1 + Math.floor(Math.random() * 3)
  const body = { items: [{ product_id: shared, quantity }] }
  const reply = await answer(ledger, client.post('/orders', body), 201)
  if (reply?.status === 201) ledger.orders.set(reply.body.data.id, quantity)
  return reply !== undefined
}

const ACTS = [create, create, create, update, update, order, order, order, remove]

/** Writes until the server does not answer; all writers order the `shared` product. */
export async function write(client: Client, ledger: Ledger, shared: string): Promise<void> {
  const own: Entry[] = []
  for (let there = true; there; ) {
    const act = ACTS[Math.floor(Math.random() * ACTS.length)] ?? create
    there = await act(client, ledger, shared, own)
  }
}
