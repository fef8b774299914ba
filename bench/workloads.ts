/** Defines the workloads: their requests and their goals. */
import { createOrderCalls } from './orders.ts'
import type { Samples } from './samples.ts'
import { type Api, type Call, send, type Target } from './targets/target.ts'

interface RunningApi {
  api: Api
  base: string
  headers: Record<string, string>
}

export interface Goal {
  /** CPU per request of server and PostgreSQL of the other target, divided by this service's: at least this. */
  cpuShare: number
  /** The 99th percentile of this service, divided by that of the other target: at most this. */
  p99?: number
}

export interface Workload {
  name: string
  title: string
  /** The goals of this service, compared with each of these targets. */
  goals: Readonly<Record<string, Goal>>
  /** Whether entity tags are enabled in the peers. */
  etags: boolean
  /** Whether the requests change rows. */
  writes: boolean
  /** Whether only this service supports it. */
  serviceOnly?: boolean
  createCalls(samples: Samples, running: RunningApi): Call[] | Promise<Call[]>
}

const addHeaders = ({ headers }: RunningApi, calls: Call[]): Call[] =>
  calls.map((call) => ({ ...call, headers: { ...headers, ...call.headers } }))

/** Creates the requests of W1 with If-None-Match and the entity tags that the server returned. */
async function createConditionalCalls({ products }: Samples, running: RunningApi): Promise<Call[]> {
  const calls = addHeaders(
    running,
    products.map(({ id }) => running.api.product(id)),
  )
  const tagged: Call[] = []
  for (const call of calls) {
    const { etag } = await send(running.base, call)
    if (!etag) throw new Error(`${call.path} has no ETag`)
    tagged.push({ ...call, headers: { ...call.headers, 'If-None-Match': etag } })
  }
  return tagged
}

const withHeaders =
  (createCalls: (samples: Samples, api: Api) => Call[]): Workload['createCalls'] =>
  (samples, running) =>
    addHeaders(running, createCalls(samples, running.api))

export const workloads: readonly Workload[] = [
  {
    name: 'W1',
    title: 'one product by id',
    goals: { reference: { cpuShare: 1, p99: 1.2 }, equal: { cpuShare: 1 } },
    etags: false,
    writes: false,
    createCalls: withHeaders(({ products }, api) => products.map(({ id }) => api.product(id))),
  },
  {
    name: 'W2',
    title: '20 products, newest first',
    goals: { reference: { cpuShare: 1, p99: 1.2 }, equal: { cpuShare: 1 } },
    etags: false,
    writes: false,
    createCalls: withHeaders((_, api) => [api.newestProducts()]),
  },
  {
    name: 'W3',
    title: '20 active users at a deep cursor',
    goals: { reference: { cpuShare: 1, p99: 1.5 }, equal: { cpuShare: 1 } },
    etags: false,
    writes: false,
    createCalls: withHeaders(({ positions }, api) => positions.map((position) => api.usersAfter(position))),
  },
  {
    name: 'W4',
    title: '20 orders with their items and users',
    goals: { reference: { cpuShare: 0.9, p99: 1.5 }, equal: { cpuShare: 1 } },
    etags: false,
    writes: false,
    createCalls: withHeaders((_, api) => [api.newestOrdersWithUsers()]),
  },
  {
    name: 'W5',
    title: 'a new product',
    goals: {
      reference: { cpuShare: 0.75, p99: 1.5 },
      equal: { cpuShare: 1 },
      'ours-no-events': { cpuShare: 1 / 1.25 },
    },
    etags: false,
    writes: true,
    createCalls: withHeaders((_, api) => [api.createProduct()]),
  },
  {
    name: 'W6',
    title: "a product's stock changed",
    goals: {
      reference: { cpuShare: 0.75, p99: 1.5 },
      equal: { cpuShare: 1 },
      'ours-no-events': { cpuShare: 1 / 1.25 },
    },
    etags: false,
    writes: true,
    createCalls: withHeaders(({ products }, api) => products.map((product) => api.setStock(product))),
  },
  {
    name: 'W7',
    title: 'one product by id, 304',
    goals: { reference: { cpuShare: 1, p99: 1.2 }, equal: { cpuShare: 1 } },
    etags: true,
    writes: false,
    createCalls: createConditionalCalls,
  },
  {
    name: 'order',
    title: 'an order of ten items',
    goals: { 'ours-no-events': { cpuShare: 1 / 1.15 } },
    etags: false,
    writes: true,
    serviceOnly: true,
    createCalls: (_, running) => createOrderCalls(running, 10),
  },
]

/** Returns whether a target takes part in a workload. */
export const isMeasured = (target: Target, { writes, serviceOnly }: Workload): boolean =>
  (writes || !target.writesOnly) && (target.isService === true || !serviceOnly)

export const workloadNames = workloads.map(({ name }) => name)
