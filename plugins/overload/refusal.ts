/** The 503 of an overloaded server, written by hand: through Fastify and its hooks it would cost three times as much. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { securityHeaders } from '../docs/headers.ts'
import { apiError, envelope } from '../errors.ts'
import { genReqId } from '../logging.ts'
import type { Representation } from '../representation/types.ts'
import { VENDOR } from '../version/accept.ts'
import type { Address } from '../version/addresses.ts'

// Made once: an error with its stack costs more than all the rest.
const failure = apiError('SERVICE_UNAVAILABLE', { message: 'The service is overloaded', retryAfter: 2 })

const always = Object.entries({
  ...securityHeaders,
  ...failure.headers,
  'Cache-Control': 'no-store',
  Vary: 'Accept, Authorization, X-API-Key',
}).flat()

/** The envelope on either side of the request's id, which needs no escapes. */
const sides = new WeakMap<Representation, readonly [string, string]>()

function around(representation: Representation): readonly [string, string] {
  const known = sides.get(representation)
  if (known) return known
  const mark = '\u0000'
  const [before = '', after = ''] = envelope(representation, failure, mark).split(
    JSON.stringify(mark).slice(1, -1),
  )
  const made = [before, after] as const
  sides.set(representation, made)
  return made
}

interface Refused {
  request: IncomingMessage
  response: ServerResponse
  address: Address
  /** What the page of another origin must be told to read it. */
  forPages: Record<string, string>
  /** Whether the connection ends. */
  isLast: boolean
}

/** Refuses a request of which nobody else has heard. */
export function refuse({ request, response, address, forPages, isLast }: Refused): void {
  const { representation, vendor } = address
  const requestId = genReqId(request)
  const [before, after] = around(representation)
  const body = `${before}${requestId}${after}`
  const { version } = representation
  const type = vendor ? `${VENDOR};version=${version}` : 'application/json; charset=utf-8'
  const own = ['X-Request-Id', requestId, 'API-Version', `${version}`, 'Content-Type', type]
  const all = own.concat('Content-Length', `${Buffer.byteLength(body)}`, always)
  if (isLast) all.push('Connection', 'close')
  for (const name in forPages) all.push(name, forPages[name] ?? '')
  response.writeHead(failure.status, all)
  response.end(body)
}
