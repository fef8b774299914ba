/** Waits for a server that, or whose database, starts. */
import { setTimeout as wait } from 'node:timers/promises'
import type { Client } from '../helpers/app.ts'

const INTERVAL_MS = 10

/** Sends requests until one returns 200. */
export async function waitUntilServed(client: Client): Promise<void> {
  for (;;) {
    const reply = await client.get('/products?limit=1').catch(() => undefined)
    if (reply?.status === 200) return
    await wait(INTERVAL_MS)
  }
}
