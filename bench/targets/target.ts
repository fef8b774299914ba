/** Defines a target: how its server starts, how its API is called and how its responses are read. */
import { Agent, request } from 'node:http'
import type { Position, ProductRow } from '../rows.ts'

export interface Call {
  method: string
  path: string
  headers?: Record<string, string>
  /** JSON; the load generator replaces `#########` by nine digits that differ in each request. */
  body?: string
}

/** A resource with the fields of version 1 of this service. */
export type Resource = Record<string, unknown>

/** Creates the requests of the workloads for one API. */
export interface Api {
  product(id: string): Call
  newestProducts(): Call
  /** The page of active users after a position, newest first. */
  usersAfter(position: Position): Call
  newestOrdersWithUsers(): Call
  createProduct(): Call
  setStock(product: ProductRow): Call
  /** Parses a response into resources with the fields of version 1. */
  resources(text: string): Resource[]
  /** Whether responses have the envelope of version 1. */
  hasVersion1Envelope: boolean
}

export interface TargetResponse {
  status: number
  etag: string | undefined
  text: string
}

export interface Target {
  name: string
  title: string
  /** The working directory of the server. */
  folder: string
  /** The path of the server's script in that folder. */
  script: string
  /** The path of a Node.js that the target requires; by default that of the `--node` option. */
  node?: string
  env: Record<string, string>
  /** Whether it is this service, in any configuration. */
  isService?: boolean
  /** Whether only workloads that change rows are measured. */
  writesOnly?: boolean
  api: Api
  /** Returns header fields for its requests, with credentials that it creates on the running server. */
  createHeaders?(base: string): Promise<Record<string, string>>
  /** Collects from the running server what its requests need, such as cursors. */
  prepare?(base: string, headers: Record<string, string>, positions: readonly Position[]): Promise<void>
}

const agent = new Agent({ keepAlive: true, maxSockets: 1 })

/** Sends a call. Not with `fetch`, which adds `Cache-Control: no-cache` to a request with If-None-Match. */
export function send(
  base: string,
  { method, path, headers, body }: Call,
  number = '000000001',
): Promise<TargetResponse> {
  const sentBody = body?.replaceAll('#########', number)
  const contentType = sentBody === undefined ? {} : { 'Content-Type': 'application/json' }
  return new Promise((resolve, reject) => {
    const clientRequest = request(
      `${base}${path}`,
      { method, headers: { ...headers, ...contentType }, agent },
      (response) => {
        let text = ''
        response.setEncoding('utf8').on('data', (chunk: string) => {
          text += chunk
        })
        response.on('end', () =>
          resolve({ status: response.statusCode ?? 0, etag: response.headers.etag, text }),
        )
        response.on('error', reject)
      },
    )
    clientRequest.on('error', reject)
    clientRequest.end(sentBody)
  })
}
