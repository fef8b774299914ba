/** Clients that create products and read them until the end, and what they observed. */
import { setTimeout as wait } from 'node:timers/promises'
import type { Client, Reply } from '../../packages/testing/helpers/app.ts'
import { collectIds } from '../../packages/testing/helpers/replies.ts'

export interface ProductLoad {
  /** Requests with the expected status. */
  answered: number
  /** A line for each other request. */
  failed: string[]
  /** Milliseconds of each request. */
  times: number[]
  /** The number of acknowledged writes, and of those that are missing. */
  written: number
  lost: number
}

/**
 * Starts the load. The returned function ends it.
 * @param sku the beginning of all SKUs
 * @param pause average milliseconds between two requests of a client
 */
export function startProductLoad(
  client: Client,
  { clients, sku, pause }: { clients: number; sku: string; pause: number },
): () => Promise<ProductLoad> {
  const load: ProductLoad = { answered: 0, failed: [], times: [], written: 0, lost: 0 }
  const ids: string[] = []
  let isOver = false
  const send = async (name: string, expected: number, request: () => Promise<Reply>) => {
    await wait(pause * Math.random() * 2)
    const startedAt = performance.now()
    const reply = await request().catch((error: unknown) => String(error))
    load.times.push(performance.now() - startedAt)
    if (typeof reply === 'string') load.failed.push(`${name}: ${reply}`)
    else if (reply.status === expected) load.answered += 1
    else load.failed.push(`${name} returned ${reply.status}: ${reply.text}`)
    if (typeof reply !== 'string' && reply.status === 201) ids.push(reply.body.data.id)
  }
  const runClient = async (_: unknown, clientIndex: number) => {
    for (let i = 0; !isOver; i += 1) {
      const body = { sku: `${sku}-${clientIndex}-${i}`, name: 'Soak product', price_amount: 1 }
      await send('POST', 201, () => client.post('/products', body))
      await send('GET', 200, () => client.get('/products?limit=5'))
      const id = ids[Math.floor(Math.random() * ids.length)]
      if (id) await send('GET one', 200, () => client.get(`/products/${id}`))
    }
  }
  const running = Array.from({ length: clients }, runClient)
  return async () => {
    isOver = true
    await Promise.all(running)
    const stored = new Set(await collectIds(client, '/products?limit=100'))
    return { ...load, written: ids.length, lost: ids.filter((id) => !stored.has(id)).length }
  }
}
