/** Defines the workloads: their requests and their goals. */
import type { Samples } from './samples.ts'
import { type Api, type Call, send } from './targets/target.ts'

interface RunningApi {
  api: Api
  base: string
  headers: Record<string, string>
}

export interface Workload {
  name: string
  title: string
  /** The CPU of the reference per request, divided by this service's: the value to reach. */
  goal: number
  /** Whether entity tags are enabled in the peers. */
  etags: boolean
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
    goal: 0.8,
    etags: false,
    createCalls: withHeaders(({ products }, api) => products.map(({ id }) => api.product(id))),
  },
  {
    name: 'W2',
    title: '20 products, newest first',
    goal: 1,
    etags: false,
    createCalls: withHeaders((_, api) => [api.newestProducts()]),
  },
  {
    name: 'W3',
    title: '20 active users at a deep cursor',
    goal: 1,
    etags: false,
    createCalls: withHeaders(({ positions }, api) => positions.map((position) => api.usersAfter(position))),
  },
  {
    name: 'W4',
    title: '20 orders with their items and users',
    goal: 1,
    etags: false,
    createCalls: withHeaders((_, api) => [api.newestOrdersWithUsers()]),
  },
  {
    name: 'W5',
    title: 'a new product',
    goal: 0.9,
    etags: false,
    createCalls: withHeaders((_, api) => [api.createProduct()]),
  },
  {
    name: 'W6',
    title: "a product's stock changed",
    goal: 0.9,
    etags: false,
    createCalls: withHeaders(({ products }, api) => products.map((product) => api.setStock(product))),
  },
  {
    name: 'W7',
    title: 'one product by id, 304',
    goal: 0.9,
    etags: true,
    createCalls: createConditionalCalls,
  },
]

export const workloadNames = workloads.map(({ name }) => name)
