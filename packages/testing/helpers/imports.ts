/** Imports that a client does not end, and bodies that cost much for their size or count. */
import { once } from 'node:events'
import { Agent, type ClientRequest, request as httpRequest, type IncomingMessage } from 'node:http'
import type { Json } from './app.ts'

export const NDJSON = { 'content-type': 'application/x-ndjson' }

interface OpenImport {
  request: ClientRequest
  /** Sends the rest of the body, and reads the response. */
  end(rest?: string): Promise<{ status: number; body: Json; headers: IncomingMessage['headers'] }>
}

interface ImportStart {
  path?: string
  headers?: Record<string, string>
  start?: string
}

/** Begins an import whose body the client does not end. */
export async function openImport(
  url: string,
  { path = '/products', headers = {}, start = '' }: ImportStart = {},
): Promise<OpenImport> {
  // A connection of its own: the server closes that of a refused body.
  const agent = new Agent({ keepAlive: true })
  const request = httpRequest(`${url}${path}`, { method: 'POST', headers: { ...NDJSON, ...headers }, agent })
  request.on('error', () => {})
  const response = once(request, 'response')
  response.catch(() => {})
  request.write(start)
  request.flushHeaders()
  return {
    request,
    async end(rest = '') {
      request.end(rest)
      const [message]: IncomingMessage[] = await response
      if (!message) throw new Error('There is no response')
      const chunks = await message.toArray()
      const { statusCode: status = 0, headers: received } = message
      return { status, headers: received, body: JSON.parse(Buffer.concat(chunks).toString()) }
    },
  }
}

/** Bodies of CSV that are refused. */
export const createEmptyLines = (bytes: number) => '\n'.repeat(bytes)
export const createRowsOfCommas = (count: number) => `sku,name\n${`${','.repeat(900_000)}\n`.repeat(count)}`
export const createLongRows = (count: number) => `sku\n${`${'x'.repeat(1_000_000)}\n`.repeat(count)}`
