/**
 * Sends requests over kept-alive connections from a separate process and summarizes the responses. In an open loop,
 * requests are sent at a fixed rate whether or not earlier ones have responses; in a closed loop, one after the other on
 * each connection.
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as wait } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { type Dispatcher, Pool } from 'undici'
import { ADMIN_KEY } from '../../packages/testing/helpers/app.ts'
import { summarize, type Times } from './report.ts'

export interface LoadRequest {
  method: Dispatcher.HttpMethod
  path: string
  headers: Record<string, string>
  body?: string
}

export interface LoadOptions {
  port: number
  /** Chosen at random. */
  requests: readonly LoadRequest[]
  seconds: number
  /** Requests per second of a Poisson process; without it, the load is a closed loop. */
  rate?: number
  /** The connections of a closed loop. An open loop opens as many as it needs. */
  connections?: number
}

export interface LoadReport {
  sent: number
  /** By status, from the time at which the request was due; `lost` are requests without a response. */
  outcomes: Record<string, Times>
  /** Responses with 200, 201 and 304. */
  served: Times
}

const SERVED_STATUSES = ['200', '201', '304']
const MAX_CONNECTIONS = 5_000
const RESPONSE_TIMEOUT_MS = 15_000
const MODULE = fileURLToPath(import.meta.url)

/** Creates a request of the administrator or of another credential. */
export const createRequest = (
  method: LoadRequest['method'],
  path: string,
  { body, headers = { 'x-api-key': ADMIN_KEY } }: { body?: object; headers?: Record<string, string> } = {},
): LoadRequest => ({
  ...{ method, path: `/api/v1${path}` },
  headers: { ...headers, ...(body && { 'content-type': 'application/json' }) },
  ...(body && { body: JSON.stringify(body) }),
})

async function generateLoad({ port, requests, seconds, rate, connections = MAX_CONNECTIONS }: LoadOptions) {
  const pool = new Pool(`http://127.0.0.1:${port}`, { connections, headersTimeout: RESPONSE_TIMEOUT_MS })
  const times = new Map<string, number[]>()
  const send = async (due: number) => {
    const request = requests[Math.floor(Math.random() * requests.length)]
    if (!request) throw new Error('There is no request')
    const status = await pool.request(request).then(
      async ({ statusCode, body }) => {
        await body.dump({ limit: Number.POSITIVE_INFINITY })
        return String(statusCode)
      },
      () => 'lost',
    )
    const list = times.get(status) ?? []
    times.set(status, list)
    list.push(performance.now() - due)
  }
  const startedAt = performance.now()
  const end = startedAt + seconds * 1000
  const running: Promise<void>[] = []
  if (rate === undefined) {
    const run = async () => {
      while (performance.now() < end) await send(performance.now())
    }
    running.push(...Array.from({ length: connections }, run))
  } else {
    const drawInterval = () => (-Math.log(1 - Math.random()) / rate) * 1000
    for (let due = startedAt + drawInterval(); due < end; ) {
      await wait(1)
      for (const now = performance.now(); due <= now && due < end; due += drawInterval()) {
        running.push(send(due))
      }
    }
  }
  await Promise.all(running)
  await pool.destroy()
  const all = [...times]
  return {
    sent: all.flatMap(([, list]) => list).length,
    outcomes: Object.fromEntries(all.map(([status, list]) => [status, summarize(list)])),
    served: summarize(all.flatMap(([status, list]) => (SERVED_STATUSES.includes(status) ? list : []))),
  }
}

export async function runLoad(options: LoadOptions): Promise<LoadReport> {
  const child = fork(MODULE, { execArgv: ['--conditions=resource-api', '--import=tsx'] })
  const message = once(child, 'message')
  const failure = once(child, 'exit').then(([code]) =>
    Promise.reject(new Error(`The load generator exited with ${code}`)),
  )
  failure.catch(() => undefined)
  child.send(options)
  const [report] = await Promise.race([message, failure])
  return report
}

if (process.argv[1] === MODULE) {
  process.once('message', async (options: LoadOptions) => {
    process.send?.(await generateLoad(options))
    process.disconnect()
  })
}
