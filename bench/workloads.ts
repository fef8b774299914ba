/** The workloads: what is asked, of what it is the share that is wanted, and what a right answer is. */
import type { Samples } from './samples.ts'
import { type Api, type Call, send } from './targets/target.ts'

interface Running {
  api: Api
  base: string
  headers: Record<string, string>
}

export interface Workload {
  name: string
  title: string
  /** The reference's CPU per request as a share of ours: what must be reached. */
  goal: number
  /** Whether peers need entity tags switched on. */
  etags: boolean
  calls(samples: Samples, running: Running): Call[] | Promise<Call[]>
}

const withHeaders = ({ headers }: Running, calls: Call[]): Call[] =>
  calls.map((call) => ({ ...call, headers: { ...headers, ...call.headers } }))

/** The same thousand products as they are asked for with the tags that the server itself gave. */
async function conditional({ products }: Samples, running: Running): Promise<Call[]> {
  const calls = withHeaders(
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

const plain =
  (calls: (samples: Samples, api: Api) => Call[]): Workload['calls'] =>
  (samples, running) =>
    withHeaders(running, calls(samples, running.api))

export const workloads: readonly Workload[] = [
  {
    name: 'W1',
    title: 'one product by id',
    goal: 0.8,
    etags: false,
    calls: plain(({ products }, api) => products.map(({ id }) => api.product(id))),
  },
  {
    name: 'W2',
    title: '20 products, newest first',
    goal: 1,
    etags: false,
    calls: plain((_, api) => [api.newestProducts()]),
  },
  {
    name: 'W3',
    title: '20 active users at a deep cursor',
    goal: 1,
    etags: false,
    calls: plain(({ positions }, api) => positions.map((position) => api.usersAfter(position))),
  },
  {
    name: 'W4',
    title: '20 orders with their items and users',
    goal: 1,
    etags: false,
    calls: plain((_, api) => [api.newestOrdersWithUsers()]),
  },
  {
    name: 'W5',
    title: 'a new product',
    goal: 0.9,
    etags: false,
    calls: plain((_, api) => [api.createProduct()]),
  },
  {
    name: 'W6',
    title: "a product's stock changed",
    goal: 0.9,
    etags: false,
    calls: plain(({ products }, api) => products.map((product) => api.setStock(product))),
  },
  {
    name: 'W7',
    title: 'one product by id, 304',
    goal: 0.9,
    etags: true,
    calls: conditional,
  },
]

export const workloadNames = workloads.map(({ name }) => name)
