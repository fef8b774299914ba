/** Consumers of the feed that continue after each failure: streams that resume, and a client that polls. */
import { setTimeout as wait } from 'node:timers/promises'
import type { Client } from '../helpers/app.ts'
import type { Owner } from '../helpers/database.ts'
import { openStream, type TestStream } from '../helpers/event-streams.ts'
import { getEvents } from '../helpers/events.ts'
import type { FeedEvent } from './event-checks.ts'

export interface FeedConsumer {
  name: string
  /** Returns the events so far, in the order in which they arrived. */
  getSeen(): readonly FeedEvent[]
  /** The number of successful connections of a stream, or of requests that returned a page. */
  getConnectionCount(): number
  /** Returns a line for each response other than success and 503. */
  getFailures(): readonly string[]
  /** Returns the longest time in ms from the change to the arrival of its event. */
  getLongestWait(): number
  stop(): Promise<void>
}

interface StreamOptions {
  base: string
  headers: Record<string, string>
  path: string
  /** The events after this cursor are streamed. */
  cursor: string
}

const RETRY_INTERVAL_MS = 50
const POLL_INTERVAL_MS = 50

/** Follows a stream. After its end a new one begins with `Last-Event-ID`. */
export function followStream(t: Owner, name: string, options: StreamOptions): FeedConsumer {
  const earlier: TestStream['events'][number][] = []
  const failures: string[] = []
  let { cursor } = options
  let current: TestStream | undefined
  let connections = 0
  let isStopped = false

  const open = async () => {
    const stream = await openStream(t, options.base, { ...options, cursor }).catch(() => undefined)
    if (stream?.status === 200) return stream
    if (stream && stream.status !== 503) failures.push(`${stream.status} ${JSON.stringify(stream.body)}`)
    await wait(RETRY_INTERVAL_MS)
    return undefined
  }
  const run = async () => {
    while (!isStopped) {
      const stream = await open()
      if (!stream) continue
      connections += 1
      current = stream
      if (isStopped) stream.close()
      await stream.waitForEnd().catch(() => undefined)
      current = undefined
      earlier.push(...stream.events)
      cursor = stream.getCursor() || cursor
    }
  }
  const running = run()
  const getStreamed = () => [...earlier, ...(current?.events ?? [])]

  return {
    name,
    getSeen: () => getStreamed().map(({ data }) => data),
    getConnectionCount: () => connections,
    getFailures: () => failures,
    getLongestWait: () =>
      getStreamed().reduce((longest, { at, data }) => Math.max(longest, at - Date.parse(data.created_at)), 0),
    async stop() {
      isStopped = true
      current?.close()
      await running
    },
  }
}

/** Polls the feed. The cursor is stored together with the events of its page. */
export function pollFeed(client: Client, name: string, start: string): FeedConsumer {
  const seen: FeedEvent[] = []
  const failures: string[] = []
  let cursor = start
  let pages = 0
  let longestWait = 0
  let isStopped = false

  const poll = async () => {
    const page = await client.get(`/events?sort=position&limit=100&cursor=${cursor}`).catch(() => undefined)
    if (page?.status !== 200) {
      if (page && page.status !== 503) failures.push(`${page.status} ${page.text}`)
      return wait(RETRY_INTERVAL_MS)
    }
    pages += 1
    for (const event of getEvents(page)) {
      seen.push(event)
      longestWait = Math.max(longestWait, Date.now() - Date.parse(event.created_at))
    }
    cursor = page.body.pagination.cursor
    if (!page.body.pagination.has_more) await wait(POLL_INTERVAL_MS)
  }
  const run = async () => {
    while (!isStopped) await poll()
  }
  const running = run()

  return {
    name,
    getSeen: () => seen,
    getConnectionCount: () => pages,
    getFailures: () => failures,
    getLongestWait: () => longestWait,
    async stop() {
      isStopped = true
      await running
    },
  }
}
