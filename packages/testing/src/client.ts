/** A client that shows the whole reply. */
import { once } from 'node:events'
import { Agent, type IncomingMessage, request } from 'node:http'
import { brotliDecompressSync, gunzipSync } from 'node:zlib'

// biome-ignore lint/suspicious/noExplicitAny: the type of a reply's body is what a test checks
export type Json = any

export interface Reply {
  status: number
  headers: Headers
  /** The parsed JSON; undefined for any other body. */
  body: Json
  text: string
}

export interface CallOptions {
  headers?: Record<string, string>
  /** Sent as JSON, unless it is a string. */
  body?: unknown
}

export interface Client {
  call(method: string, path: string, options?: CallOptions): Promise<Reply>
  get(path: string, headers?: Record<string, string>): Promise<Reply>
  post(path: string, body: unknown, headers?: Record<string, string>): Promise<Reply>
  put(path: string, body: unknown, headers?: Record<string, string>): Promise<Reply>
  patch(path: string, body: unknown, headers?: Record<string, string>): Promise<Reply>
  delete(path: string, headers?: Record<string, string>): Promise<Reply>
}

const DECODERS: Record<string, (bytes: Buffer) => Buffer> = { gzip: gunzipSync, br: brotliDecompressSync }

async function readReply(reply: IncomingMessage): Promise<Reply> {
  const chunks: Buffer[] = []
  for await (const chunk of reply) chunks.push(chunk)
  const headers = new Headers()
  const { rawHeaders, statusCode: status = 0 } = reply
  for (let i = 0; i < rawHeaders.length; i += 2) headers.append(rawHeaders[i] ?? '', rawHeaders[i + 1] ?? '')
  const bytes = Buffer.concat(chunks)
  const decode = bytes.length > 0 && DECODERS[headers.get('content-encoding') ?? '']
  const text = (decode ? decode(bytes) : bytes).toString()
  const isJson = /[/+]json/.test(headers.get('content-type') ?? '') && text !== ''
  return { status, headers, text, body: isJson ? JSON.parse(text) : undefined }
}

/** Connections are kept for the next request: `fetch` takes four times as long, and opens one for each after a HEAD. */
const agent = new Agent({ keepAlive: true })

/** @param base the address, or a function that chooses one for each request */
export function createClient(base: string | (() => string), always: Record<string, string>): Client {
  const call = async (
    method: string,
    path: string,
    { headers = {}, body }: CallOptions = {},
  ): Promise<Reply> => {
    const text = body === undefined || typeof body === 'string' ? body : JSON.stringify(body)
    const sent = request(new URL(`${typeof base === 'string' ? base : base()}${path}`), {
      method,
      agent,
      headers: {
        ...{ accept: '*/*', 'user-agent': 'node' },
        ...always,
        ...(text !== undefined && { 'content-type': 'application/json' }),
        ...headers,
        ...(text !== undefined && { 'content-length': Buffer.byteLength(text) }),
      },
    })
    // An early response may end the connection before all of the body is sent.
    sent.on('error', () => undefined)
    sent.end(text)
    // The event has one argument.
    const [reply] = (await once(sent, 'response')) as [IncomingMessage]
    return readReply(reply)
  }
  return {
    call,
    get: (path, headers = {}) => call('GET', path, { headers }),
    post: (path, body, headers = {}) => call('POST', path, { headers, body }),
    put: (path, body, headers = {}) => call('PUT', path, { headers, body }),
    patch: (path, body, headers = {}) => call('PATCH', path, { headers, body }),
    delete: (path, headers = {}) => call('DELETE', path, { headers }),
  }
}
