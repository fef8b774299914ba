/** A client that sends one write after the other to contended rows, and logs the outcome of each by its request ids. */
import { setTimeout as wait } from 'node:timers/promises'
import { v7 as uuid } from 'uuid'
import type { Client, Json, Reply } from '../helpers/app.ts'

/**
 * What is known of a write: `unknown` has no response, or a 503, and may have been made. A write with an Idempotency-Key
 * is repeated until it is known.
 */
type Outcome = 'acknowledged' | 'refused' | 'unknown'

export interface LoggedWrite {
  /** The type of the event of the resource itself. Other resources may have events too. */
  type: string
  /** One per attempt. */
  requestIds: string[]
  outcome: Outcome
  isReplayed: boolean
  /** The resource in the response; undefined for a deletion. */
  data?: Json
}

/** What all writers share. */
export interface Contention {
  client: Client
  /** Products that all writers change and order. An order that is never deleted keeps them from being deleted. */
  productIds: readonly string[]
  /** Orders that any writer may change or delete. */
  orderIds: string[]
  /** The number of responses, by status and code, that are neither a success nor a refusal that the writes provoke. */
  otherResponses: Map<string, number>
  isOver(): boolean
}

/** The state of one writer. */
interface Writer extends Contention {
  log: LoggedWrite[]
  ownProductIds: string[]
  ownUserIds: string[]
}

interface Request {
  method: 'POST' | 'PATCH' | 'DELETE'
  path: string
  body?: unknown
}

/** The stock to which a product is set. It sometimes suffices for the orders until the next change, and sometimes not. */
const RESTOCK = 200
const MAX_QUANTITY = 5
const POSTS_PER_USER = 3
const KEYED_SHARE = 0.3
/** The statuses with which writes to contended rows are refused. */
const REFUSALS = [404, 409]

const choose = <T>(values: readonly T[]): T | undefined => values[Math.floor(Math.random() * values.length)]

/** Returns whether a request may have been made, or is still running. */
const isInDoubt = (reply: Reply | undefined): reply is undefined =>
  !reply || reply.status === 503 || (reply.status === 409 && reply.headers.has('retry-after'))

function countOther(responses: Map<string, number>, reply: Reply | undefined): void {
  const name = reply ? `${reply.status} ${reply.body?.error?.code}` : 'no response'
  responses.set(name, (responses.get(name) ?? 0) + 1)
}

/** Sends a write, and logs it. With an Idempotency-Key it is repeated until its outcome is known. */
async function send(writer: Writer, type: string, { method, path, body }: Request): Promise<LoggedWrite> {
  const { client, log, otherResponses } = writer
  // A deletion has no response that could be stored.
  const isKeyed = method !== 'DELETE' && Math.random() < KEYED_SHARE
  const key: Record<string, string> = isKeyed ? { 'idempotency-key': uuid() } : {}
  const write: LoggedWrite = { type, requestIds: [], outcome: 'unknown', isReplayed: false }
  log.push(write)
  for (;;) {
    const requestId = uuid()
    write.requestIds.push(requestId)
    const headers = { ...key, 'x-request-id': requestId }
    const reply = await client
      .call(method, path, { headers, ...(body !== undefined && { body }) })
      .catch(() => undefined)
    if (isInDoubt(reply)) {
      countOther(otherResponses, reply)
      // The server or its database is unavailable.
      await wait(20 + Math.random() * 80)
      if (isKeyed) continue
      return write
    }
    const isSuccess = reply.status >= 200 && reply.status < 300
    write.outcome = isSuccess ? 'acknowledged' : 'refused'
    write.isReplayed = reply.headers.has('idempotency-replayed')
    if (isSuccess) write.data = reply.body?.data
    else if (!REFUSALS.includes(reply.status)) countOther(otherResponses, reply)
    return write
  }
}

type Write = (writer: Writer) => Promise<unknown>

const createProduct: Write = async (writer) => {
  const body = { sku: `SOAK-${uuid()}`, name: 'Soak product', price_amount: 100, stock: 1 }
  const { data } = await send(writer, 'products.created', { method: 'POST', path: '/products', body })
  if (data) writer.ownProductIds.push(data.id)
}

const deleteProduct: Write = async (writer) => {
  const id = writer.ownProductIds.pop()
  if (id) await send(writer, 'products.deleted', { method: 'DELETE', path: `/products/${id}` })
}

/** The description is new each time, so that the row always changes. */
const restock: Write = (writer) =>
  send(writer, 'products.updated', {
    ...{ method: 'PATCH', path: `/products/${choose(writer.productIds)}` },
    body: { stock: RESTOCK, description: `Restocked by ${uuid()}` },
  })

/** Orders two products, in any order. The stock of either may be too small. */
const createOrder: Write = async (writer) => {
  const chosen = new Set([choose(writer.productIds), choose(writer.productIds)])
  const items = [...chosen].map((product_id) => ({
    product_id,
    quantity: 1 + Math.floor(Math.random() * MAX_QUANTITY),
  }))
  const { data } = await send(writer, 'orders.created', { method: 'POST', path: '/orders', body: { items } })
  if (data) writer.orderIds.push(data.id)
}

/** Other writers change the same orders: some transitions are refused. */
const changeOrder: Write = async (writer) => {
  const id = choose(writer.orderIds.slice(-20))
  if (!id) return
  const body = { status: choose(['paid', 'cancelled']), note: `Changed by ${uuid()}` }
  await send(writer, 'orders.updated', { method: 'PATCH', path: `/orders/${id}`, body })
}

const deleteOrder: Write = async (writer) => {
  const id = choose(writer.orderIds)
  if (id) await send(writer, 'orders.deleted', { method: 'DELETE', path: `/orders/${id}` })
}

/** The SKU exists, so that the transaction is rolled back. */
const createDuplicate: Write = (writer) =>
  send(writer, 'products.created', {
    ...{ method: 'POST', path: '/products' },
    body: { sku: `SHARED-0`, name: 'Duplicate', price_amount: 100 },
  })

/** An order refers to the product, so that the deletion is rolled back. */
const deleteOrderedProduct: Write = (writer) =>
  send(writer, 'products.deleted', { method: 'DELETE', path: `/products/${choose(writer.productIds)}` })

/** Creates a user with posts, each of which is a write of its own. */
const createUser: Write = async (writer) => {
  const body = { name: 'Soak user', email: `${uuid()}@example.com` }
  const { data } = await send(writer, 'users.created', { method: 'POST', path: '/users', body })
  if (!data) return
  writer.ownUserIds.push(data.id)
  for (let i = 0; i < POSTS_PER_USER && !writer.isOver(); i++) {
    const path = `/users/${data.id}/posts`
    await send(writer, 'posts.created', { method: 'POST', path, body: { title: `Post ${i}`, body: 'Soak' } })
  }
}

/** Deletes a user and, in the same transaction, the posts of the user. */
const deleteUser: Write = async (writer) => {
  const id = writer.ownUserIds.pop()
  if (id) await send(writer, 'users.deleted', { method: 'DELETE', path: `/users/${id}` })
}

/** Each write is repeated in proportion to its frequency. */
const WRITES = [
  ...[restock, restock, restock, createOrder, createOrder, createOrder, createOrder],
  ...[changeOrder, changeOrder, deleteOrder, createProduct, createProduct, deleteProduct],
  ...[createDuplicate, deleteOrderedProduct, createUser, deleteUser],
]

/** Writes until the end. Returns the writes in their order, each sent after the response to the one before it. */
export async function runEventWriter(contention: Contention): Promise<LoggedWrite[]> {
  const writer: Writer = { ...contention, log: [], ownProductIds: [], ownUserIds: [] }
  while (!writer.isOver()) await choose(WRITES)?.(writer)
  return writer.log
}
