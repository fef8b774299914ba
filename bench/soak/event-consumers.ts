/** Consumers of the feed that continue after each failure: streams that resume, and a client that polls. */
import { setTimeout as wait } from 'node:timers/promises'
import type { Client } from '../../packages/testing/helpers/app.ts'
import type { Owner } from '../../packages/testing/helpers/database.ts'
import { getEvents, openStream, type TestStream } from '../../packages/testing/helpers/events.ts'
import type { FeedEvent } from './event-checks.ts'

export interface FeedConsumer {
  name: string
  /** The events so far, in the order in which they arrived. A stream adds its events when it ends. */
  seen: { at: number; data: FeedEvent }[]
  /** The number of successful connections of a stream, or of requests that returned a page. */
  connections: number
  /** A line for each response other than success and 503. */
  failures: string[]
  isStopped: boolean
  /** Returns the position of the last event. */
  getPosition(): number
  stop(): Promise<void>
}

const PAUSE_MS = 50

/** Repeats a step until the consumer is stopped. A step resolves to whether the next one follows immediately. */
function startConsumer(name: string, step: (consumer: FeedConsumer) => Promise<boolean>): FeedConsumer {
  const consumer: FeedConsumer = {
    ...{ name, seen: [], connections: 0, failures: [], isStopped: false },
    getPosition: () => consumer.seen.at(-1)?.data.position ?? 0,
    async stop() {
      consumer.isStopped = true
      await running
    },
  }
  const run = async () => {
    while (!consumer.isStopped) if (!(await step(consumer))) await wait(PAUSE_MS)
  }
  const running = run()
  return consumer
}

/** Follows a stream, beginning after a cursor. After its end a new one begins with `Last-Event-ID`. */
export function followStream(
  t: Owner,
  name: string,
  options: { base: string; headers: Record<string, string>; path: string; cursor: string },
): FeedConsumer {
  let { cursor } = options
  let current: TestStream | undefined
  const consumer = startConsumer(name, async ({ seen, failures }) => {
    const stream = await openStream(t, options, { ...options, cursor }).catch(() => undefined)
    if (stream?.status !== 200) {
      if (stream && stream.status !== 503) failures.push(`${stream.status} ${JSON.stringify(stream.body)}`)
      return false
    }
    consumer.connections += 1
    current = stream
    if (consumer.isStopped) stream.close()
    await stream.waitForEnd().catch(() => undefined)
    current = undefined
    seen.push(...stream.events)
    cursor = stream.getCursor() || cursor
    return true
  })
  const { getPosition, stop } = consumer
  return Object.assign(consumer, {
    getPosition: () => current?.events.at(-1)?.data.position ?? getPosition(),
    stop() {
      const stopped = stop()
      current?.close()
      return stopped
    },
  })
}

/** Polls the feed. The cursor is stored together with the events of its page. */
export function pollFeed(client: Client, name: string, start: string): FeedConsumer {
  let cursor = start
  return startConsumer(name, async (consumer) => {
    const page = await client.get(`/events?sort=position&limit=100&cursor=${cursor}`).catch(() => undefined)
    if (page?.status !== 200) {
      if (page && page.status !== 503) consumer.failures.push(`${page.status} ${page.text}`)
      return false
    }
    consumer.connections += 1
    for (const data of getEvents(page)) consumer.seen.push({ at: Date.now(), data })
    cursor = page.body.pagination.cursor
    return page.body.pagination.has_more
  })
}
