/** The 503 of an overloaded server, written by hand: through Fastify and its hooks it would cost three times as much. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { getRequestId } from '../../lib/request-id.ts'
import { type ApiError, apiError, writeError } from '../errors/index.ts'
import { securityHeaders } from '../http/security-headers.ts'
import type { RefusedCount } from '../rate-limit/rules.ts'
import { VENDOR } from '../versioning/accept.ts'
import { type Address, VARY } from '../versioning/addresses.ts'
import type { Representation } from '../versioning/representation/types.ts'

// Made once: an error with its stack costs more than all the rest.
const overloaded = apiError('SERVICE_UNAVAILABLE', { message: 'The service is overloaded', retryAfter: 2 })
const limitExceeded = apiError('RATE_LIMIT_EXCEEDED')

const always = Object.entries({
  ...securityHeaders,
  'Cache-Control': 'no-store',
  Vary: VARY,
}).flat()

/** Returns a function that writes the envelope of a failure around a request id, which needs no escapes. */
function createEnvelope(failure: ApiError) {
  const sides = new WeakMap<Representation, readonly [string, string]>()
  const mark = '\u0000'
  return (representation: Representation, requestId: string): string => {
    let around = sides.get(representation)
    if (!around) {
      const text = writeError(representation.error, failure, mark)
      const [before = '', after = ''] = text.split(JSON.stringify(mark).slice(1, -1))
      around = [before, after]
      sides.set(representation, around)
    }
    return `${around[0]}${requestId}${around[1]}`
  }
}

const writeOverloaded = createEnvelope(overloaded)
const writeLimitExceeded = createEnvelope(limitExceeded)

interface Refused {
  request: IncomingMessage
  response: ServerResponse
  address: Address
  /** What the page of another origin must be told to read it. */
  forPages: Record<string, string>
  /** Whether the connection ends. */
  isLast: boolean
  /** What the request counted for; a request that exceeds its rate limit is 429 instead. */
  count: RefusedCount
}

/** Refuses a request of which nobody else has heard. */
export function refuse({ request, response, address, forPages, isLast, count }: Refused): void {
  const { representation, vendor } = address
  const requestId = getRequestId(request)
  const { state, retryAfter } = count
  const failure = retryAfter === undefined ? overloaded : limitExceeded
  const write = retryAfter === undefined ? writeOverloaded : writeLimitExceeded
  const body = write(representation, requestId)
  const { version } = representation
  const type = vendor ? `${VENDOR};version=${version}` : 'application/json; charset=utf-8'
  const own = ['X-Request-Id', requestId, 'API-Version', `${version}`, 'Content-Type', type]
  const limits = ['X-RateLimit-Limit', `${state.limit}`, 'X-RateLimit-Remaining', `${state.remaining}`]
  own.push(...limits, 'X-RateLimit-Reset', `${state.reset}`)
  own.push('Retry-After', `${retryAfter ?? overloaded.headers['Retry-After']}`)
  const all = own.concat('Content-Length', `${Buffer.byteLength(body)}`, always)
  if (isLast) all.push('Connection', 'close')
  for (const name in forPages) all.push(name, forPages[name] ?? '')
  response.writeHead(failure.status, all)
  response.end(body)
}
