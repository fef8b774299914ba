/** Twice as many requests as can be served: how many are served all the same, and how soon the others hear of it. */
import { type Client, createClient } from '../helpers/app.ts'
import type { Owner } from '../helpers/database.ts'
import { serve } from '../helpers/process.ts'
import type { LoadOptions, LoadReport, Outcome } from './load.ts'
import { PROCESSORS, pin, processorTime, runLoad } from './pinned.ts'

export interface OverloadOptions {
  settings: NodeJS.ProcessEnv
  /** The module that is run: `server.ts`, or `server.js` for what was built. */
  file: string
  /** How many times the capacity is asked for. */
  times: number
  /** Of the overload. */
  seconds: number
}

export interface OverloadReport {
  /** Requests a second, one after the other on 128 connections. */
  capacity: number
  /** At a tenth of it. */
  quiet: Outcome
  overload: LoadReport
  /** Served in the overload, of the capacity. */
  share: number
  /** The same, of each second of processor time that the server got: what others on the machine took is left out. */
  shareOfTime: number
  /** At a tenth again: in the five seconds after the overload, and in the five after those. */
  after: Outcome[]
}

export const KEY = 'soak-admin-key-soak-admin-key-soak-admin-key'
const WITHOUT_LIMIT = '1000000000'
export const OPEN = {
  PORT: '0',
  ADMIN_API_KEY: KEY,
  LOG_LEVEL: process.env.LOG_LEVEL ?? 'warn',
  RATE_LIMIT: WITHOUT_LIMIT,
  RATE_LIMIT_BURST: WITHOUT_LIMIT,
  RATE_LIMIT_ANONYMOUS: WITHOUT_LIMIT,
}
const PRODUCTS = 200
const CLOSED_LOOP = 128
const WARM_UP = 5
const MEASURED = 10
/** Kept ones, as a proxy has them: more than are let in at once, since Node accepts one in each turn of its loop. */
const KEPT = 1_500

const text = (method: string, path: string, body = '') =>
  `${method} /api/v1${path} HTTP/1.1\r\nHost: localhost\r\nX-API-Key: ${KEY}\r\n` +
  `${body && `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n`}\r\n${body}`

/** Six reads of one product, three of a list and one change, in ten. */
export async function mixture(admin: Client): Promise<string[]> {
  const requests: string[] = []
  for (let i = 0; i < PRODUCTS; i++) {
    const sku = `SOAK-${i}`
    const { status, body } = await admin.post('/products', { sku, name: 'Soaked', price_amount: i })
    if (status !== 201) throw new Error(`POST /products is ${status}`)
    const member = `/products/${body.data.id}`
    for (let n = 0; n < 6; n++) requests.push(text('GET', member))
    for (const limit of [10, 20, 50]) requests.push(text('GET', `/products?limit=${limit}`))
    requests.push(text('PATCH', member, JSON.stringify({ price_amount: 1_000 + i })))
  }
  return requests
}

export const served = ({ outcomes }: LoadReport): Outcome => {
  const known = outcomes[200]
  if (!known) throw new Error(`nothing was served: ${JSON.stringify(outcomes)}`)
  return known
}

/** Measures one server: its capacity, and what is left of it under several times as much. */
export async function overloaded(t: Owner, options: OverloadOptions): Promise<OverloadReport> {
  const { settings, file, times, seconds } = options
  const server = await serve(t, { ...settings, ...OPEN }, file)
  if (!pin(server.child.pid, PROCESSORS.server))
    console.log('  (not pinned: server and load share processors)')
  const requests = await mixture(createClient(server.url, { 'x-api-key': KEY }))
  const common = { port: Number(new URL(server.url).port), requests, connections: CLOSED_LOOP }

  /** Also by the processor time that the server took. */
  const measure = async (options: Partial<LoadOptions> & { seconds: number }) => {
    const before = processorTime(server.child.pid)
    const report = await runLoad({ ...common, ...options })
    return { report, perTime: served(report).count / (processorTime(server.child.pid) - before) }
  }

  await runLoad({ ...common, seconds: WARM_UP })
  const full = await measure({ seconds: MEASURED })
  const capacity = served(full.report).count / full.report.seconds
  const calm = () => runLoad({ ...common, rate: capacity / 10, seconds: 5 }).then(served)
  const quiet = await calm()
  const { report: overload, perTime } = await measure({ rate: capacity * times, seconds, connections: KEPT })
  const share = served(overload).count / overload.seconds / capacity
  const shareOfTime = perTime / full.perTime
  return { capacity, quiet, overload, share, shareOfTime, after: [await calm(), await calm()] }
}
