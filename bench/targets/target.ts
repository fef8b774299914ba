/** What a target is: how it starts, how its API is spoken, what its replies come to. */
import { Agent, request } from 'node:http'

export interface ProductRow {
  id: string
  sku: string
  name: string
  description: string | null
  price_amount: number
  currency: string
  stock: number
  status: string
  created_at: string
  updated_at: string
  revision: number
}

/** Where a page of active users ended; `created_at` is PostgreSQL's own text, to the microsecond. */
export interface Position {
  id: string
  created_at: string
}

export interface Call {
  method: string
  path: string
  headers?: Record<string, string>
  /** JSON; `#########` in it stands for a number of nine digits, another one in each request. */
  body?: string
}

/** A resource as version 1 of this service has it. */
export type Resource = Record<string, unknown>

/** How one API is asked for what the workloads are about. */
export interface Api {
  product(id: string): Call
  newestProducts(): Call
  /** Active users after a position in the list of the newest. */
  usersAfter(position: Position): Call
  newestOrdersWithUsers(): Call
  createProduct(): Call
  setStock(product: ProductRow): Call
  /** The resources in the text of a reply, as this service would tell them. */
  resources(text: string): Resource[]
  /** Whether its replies are to the byte what this service's are, envelope and all. */
  exact: boolean
}

export interface Reply {
  status: number
  etag: string | undefined
  text: string
}

export interface Target {
  name: string
  title: string
  /** The script, from the folder it runs in. */
  folder: string
  script: string
  /** The Node.js that it needs; undefined: that of the run. */
  node?: string
  env: Record<string, string>
  api: Api
  /** The headers of its requests, once it runs. */
  headers?(base: string): Promise<Record<string, string>>
  /** What else it must learn before it can be asked. */
  prepare?(base: string, headers: Record<string, string>, positions: readonly Position[]): Promise<void>
}

const agent = new Agent({ keepAlive: true, maxSockets: 1 })

/** One call, by hand: `fetch` would add a Cache-Control that takes the sense out of an If-None-Match. */
export function send(
  base: string,
  { method, path, headers, body }: Call,
  number = '000000001',
): Promise<Reply> {
  const sent = body?.replaceAll('#########', number)
  const type = sent === undefined ? {} : { 'Content-Type': 'application/json' }
  return new Promise((resolve, reject) => {
    const call = request(`${base}${path}`, { method, headers: { ...headers, ...type }, agent }, (reply) => {
      let text = ''
      reply.setEncoding('utf8').on('data', (part: string) => {
        text += part
      })
      reply.on('end', () => resolve({ status: reply.statusCode ?? 0, etag: reply.headers.etag, text }))
      reply.on('error', reject)
    })
    call.on('error', reject)
    call.end(sent)
  })
}
