/** Clients that send one write after the other to contended rows, and log the outcome of each by its request ids. */
import { setTimeout as wait } from 'node:timers/promises'
import { v7 as uuid } from 'uuid'
import type { Client, Json, Reply } from '../../packages/testing/helpers/app.ts'
import { readFeed } from '../../packages/testing/helpers/events.ts'

export interface LoggedWrite {
  /** The type of the event of the resource itself. Other resources may have events too. */
  type: string
  /** One per attempt. */
  requestIds: string[]
  /**
   * `unknown` has no response, or a 503, and may have been made. A write with an Idempotency-Key is repeated until it is
   * known.
   */
  outcome: 'acknowledged' | 'refused' | 'unknown'
  isReplayed: boolean
  /** The resource in the response; undefined for a deletion. */
  data?: Json
}

/** What all writers share. */
interface Contention {
  client: Client
  /** The share of creations and updates with an Idempotency-Key. */
  keyedShare: number
  /** Products that all writers change and order. An order that is never deleted keeps them from being deleted. */
  productIds: readonly string[]
  /** Orders that any writer may change or delete. */
  orderIds: string[]
  /** The number of responses, by status and code, that are neither a success nor a refusal that the writes provoke. */
  otherResponses: Record<string, number>
  isOver: boolean
}

/** The state of one writer. */
interface Writer {
  shared: Contention
  log: LoggedWrite[]
  ownProductIds: string[]
  ownUserIds: string[]
}

export interface WriteOptions {
  rounds: number
  /** The number of concurrent writers. */
  clients: number
  /** Minimum and maximum milliseconds of writing before each kill. */
  between: readonly [number, number]
  keyedShare?: number
  onRound?: (line: string) => void
}

const PRODUCT_COUNT = 5
/** The stock to which a product is set. It sometimes suffices for the orders until the next change, and sometimes not. */
const RESTOCK = 200
const MAX_QUANTITY = 5
const POSTS_PER_USER = 3
const METHODS: Record<string, string> = { created: 'POST', updated: 'PATCH', deleted: 'DELETE' }
/** The statuses with which writes to contended rows are refused. */
const REFUSALS = [404, 409]

const choose = <T>(values: readonly T[]): T | undefined => values[Math.floor(Math.random() * values.length)]

/** Returns whether a request may have been made, or is still running. */
const isInDoubt = (reply: Reply | undefined): reply is undefined =>
  !reply || reply.status === 503 || (reply.status === 409 && reply.headers.has('retry-after'))

/** Sends a write, and logs it. With an Idempotency-Key it is repeated until its outcome is known. */
async function send({ shared, log }: Writer, type: string, path: string, body?: object): Promise<Json> {
  const { client, keyedShare, otherResponses } = shared
  const countOther = (reply?: Reply) => {
    const name = reply ? `${reply.status} ${reply.body?.error?.code}` : 'no response'
    otherResponses[name] = (otherResponses[name] ?? 0) + 1
  }
  const method = METHODS[type.split('.')[1] ?? ''] ?? ''
  // A deletion has no response that could be stored.
  const isKeyed = body !== undefined && Math.random() < keyedShare
  const key: Record<string, string> = isKeyed ? { 'idempotency-key': uuid() } : {}
  const write: LoggedWrite = { type, requestIds: [], outcome: 'unknown', isReplayed: false }
  log.push(write)
  do {
    const requestId = uuid()
    write.requestIds.push(requestId)
    const headers = { ...key, 'x-request-id': requestId }
    const reply = await client.call(method, path, { headers, body }).catch(() => undefined)
    if (!isInDoubt(reply)) {
      const isSuccess = reply.status < 300
      write.outcome = isSuccess ? 'acknowledged' : 'refused'
      write.isReplayed = reply.headers.has('idempotency-replayed')
      if (isSuccess) write.data = reply.body?.data
      else if (!REFUSALS.includes(reply.status)) countOther(reply)
      return write.data
    }
    countOther(reply)
    // The server or its database is unavailable.
    await wait(20 + Math.random() * 80)
  } while (isKeyed)
  return undefined
}

type Write = (writer: Writer) => Promise<unknown>

const WRITES: { share: number; write: Write }[] = [
  {
    // The description is new each time, so that the row always changes.
    share: 3,
    write: (writer) =>
      send(writer, 'products.updated', `/products/${choose(writer.shared.productIds)}`, {
        ...{ stock: RESTOCK, description: `Restocked by ${uuid()}` },
      }),
  },
  {
    // Orders two products, in any order. The stock of either may be too small.
    share: 4,
    write: async (writer) => {
      const { productIds, orderIds } = writer.shared
      const chosen = new Set([choose(productIds), choose(productIds)])
      const quantity = 1 + Math.floor(Math.random() * MAX_QUANTITY)
      const items = [...chosen].map((product_id) => ({ product_id, quantity }))
      const data = await send(writer, 'orders.created', '/orders', { items })
      if (data) orderIds.push(data.id)
    },
  },
  {
    // Other writers change the same orders: some transitions are refused.
    share: 2,
    write: async (writer) => {
      const id = choose(writer.shared.orderIds.slice(-20))
      const body = { status: choose(['paid', 'cancelled']), note: `Changed by ${uuid()}` }
      if (id) await send(writer, 'orders.updated', `/orders/${id}`, body)
    },
  },
  {
    share: 1,
    write: async (writer) => {
      const id = choose(writer.shared.orderIds)
      if (id) await send(writer, 'orders.deleted', `/orders/${id}`)
    },
  },
  {
    share: 2,
    write: async (writer) => {
      const body = { sku: `SOAK-${uuid()}`, name: 'Soak product', price_amount: 100, stock: 1 }
      const data = await send(writer, 'products.created', '/products', body)
      if (data) writer.ownProductIds.push(data.id)
    },
  },
  {
    share: 1,
    write: async (writer) => {
      const id = writer.ownProductIds.pop()
      if (id) await send(writer, 'products.deleted', `/products/${id}`)
    },
  },
  {
    // The SKU exists, so that the transaction is rolled back.
    share: 1,
    write: (writer) =>
      send(writer, 'products.created', '/products', { sku: 'SHARED-0', name: 'Duplicate', price_amount: 1 }),
  },
  {
    // An order refers to the product, so that the deletion is rolled back.
    share: 1,
    write: (writer) => send(writer, 'products.deleted', `/products/${choose(writer.shared.productIds)}`),
  },
  {
    // Creates a user with posts, each of which is a write of its own.
    share: 1,
    write: async (writer) => {
      const body = { name: 'Soak user', email: `${uuid()}@example.com` }
      const data = await send(writer, 'users.created', '/users', body)
      if (!data) return
      writer.ownUserIds.push(data.id)
      for (let i = 0; i < POSTS_PER_USER && !writer.shared.isOver; i++) {
        await send(writer, 'posts.created', `/users/${data.id}/posts`, { title: `Post ${i}`, body: 'Soak' })
      }
    },
  },
  {
    // Deletes a user and, in the same transaction, the posts of the user.
    share: 1,
    write: async (writer) => {
      const id = writer.ownUserIds.pop()
      if (id) await send(writer, 'users.deleted', `/users/${id}`)
    },
  },
]
const WEIGHTED_WRITES = WRITES.flatMap(({ share, write }) => Array.from({ length: share }, () => write))

/** Writes until the end. Returns the writes in their order, each sent after the response to the one before it. */
async function runWriter(shared: Contention): Promise<LoggedWrite[]> {
  const writer: Writer = { shared, log: [], ownProductIds: [], ownUserIds: [] }
  while (!shared.isOver) await choose(WEIGHTED_WRITES)?.(writer)
  return writer.log
}

/** @throws Error if the response is not 201 */
async function create(client: Client, path: string, body: object, headers = {}): Promise<Json> {
  const reply = await client.post(path, body, headers)
  if (reply.status !== 201) throw new Error(`POST ${path} returned ${reply.text}`)
  return reply.body.data
}

/** Creates the products that all writers change, and an order that keeps them from being deleted. */
export async function createSharedProducts(client: Client): Promise<string[]> {
  const productIds: string[] = []
  for (let i = 0; i < PRODUCT_COUNT; i++) {
    const product = { sku: `SHARED-${i}`, name: 'Shared product', price_amount: 1 }
    productIds.push((await create(client, '/products', { ...product, status: 'active', stock: 100 })).id)
  }
  await create(client, '/orders', { items: productIds.map((product_id) => ({ product_id, quantity: 1 })) })
  return productIds
}

/**
 * Runs the writers, and the kills one after another.
 * @param kill returns a line when clients are served again
 * @returns what each writer has logged, and the responses that are neither a success nor a refusal
 */
export async function writeDuringKills(
  client: Client,
  productIds: readonly string[],
  { rounds, clients, between: [min, max], keyedShare = 0.3, onRound }: WriteOptions,
  kill: (round: number) => Promise<string>,
) {
  const shared: Contention = {
    ...{ client, keyedShare, productIds, orderIds: [], otherResponses: {}, isOver: false },
  }
  const writers = Array.from({ length: clients }, () => runWriter(shared))
  for (let round = 1; round <= rounds; round++) {
    await wait(min + Math.random() * (max - min))
    const line = await kill(round)
    onRound?.(`round ${round}: ${line}`)
  }
  await wait(min)
  shared.isOver = true
  return { logs: await Promise.all(writers), otherResponses: shared.otherResponses }
}

/**
 * Creates a product, and reads the feed when it has the event: positions are assigned in the order of the commits.
 * @returns all events, and the logged write of the product
 */
export async function readCompleteFeed(client: Client) {
  const requestId = uuid()
  const product = { sku: `LAST-${requestId}`, name: 'Last product', price_amount: 1 }
  const data = await create(client, '/products', product, { 'x-request-id': requestId })
  const write: LoggedWrite = {
    ...{
      type: 'products.created',
      requestIds: [requestId],
      outcome: 'acknowledged',
      isReplayed: false,
      data,
    },
  }
  for (let feed = await readFeed(client, '&limit=100'); ; await wait(20)) {
    if (feed.events.some(({ request_id }) => request_id === requestId)) return { ...feed, write }
    const { events, cursor } = await readFeed(client, '&limit=100', feed.cursor)
    feed = { events: [...feed.events, ...events], cursor }
  }
}
