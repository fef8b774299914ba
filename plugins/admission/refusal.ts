/**
 * Refuses requests because of overload: reports each refusal, and writes the 503 directly to Node's response, since through
 * Fastify it takes three times as long.
 */
import { channel } from 'node:diagnostics_channel'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { FastifyInstance } from 'fastify'
import { getChannelName } from '../../lib/identity.ts'
import { getRequestId } from '../../lib/request-id.ts'
import { apiError, writeError } from '../errors/index.ts'
import { securityHeaders } from '../http/response-headers.ts'
import type { OverloadedCount } from '../rate-limit/limits.ts'
import { VENDOR_TYPE } from '../versioning/accept.ts'
import { type Address, VARY } from '../versioning/addresses.ts'

/** Why a request or a connection was refused: the label of the metric, so its values are part of the contract. */
export type Reason = 'event-loop' | 'line' | 'connections'

/** Time between two log lines about overload. */
const LOG_INTERVAL_MS = 10_000

const refused = channel(getChannelName('overload:refused'))

/** Returns a function that publishes each refusal on the diagnostics channel, and logs a summary at intervals. */
export function createRefusalReporter({ log }: FastifyInstance) {
  let count = 0
  let loggedAt = Number.NEGATIVE_INFINITY
  return (reason: Reason) => {
    count += 1
    if (refused.hasSubscribers) refused.publish({ reason })
    const now = performance.now()
    if (now - loggedAt < LOG_INTERVAL_MS) return
    log.warn({ reason, refused: count }, 'overloaded: requests are refused')
    loggedAt = now
    count = 0
  }
}

// Created once, since capturing an error's stack takes longer than the rest of the response.
export const overloaded = apiError('SERVICE_UNAVAILABLE', {
  message: 'The service is overloaded',
  retryAfter: 2,
})
const limitExceeded = apiError('RATE_LIMIT_EXCEEDED')

const commonHeaders = Object.entries({
  ...securityHeaders,
  'Cache-Control': 'no-store',
  Vary: VARY,
}).flat()

interface Refusal {
  request: IncomingMessage
  response: ServerResponse
  address: Address
  /** CORS headers, with which a page of another origin can read the response. */
  corsHeaders: Record<string, string>
  /** Whether to close the connection after the response. */
  isLast: boolean
  /** The rate limit's state after counting the request. If it is exceeded, the response is 429 instead. */
  count: OverloadedCount
}

/** Responds 503, or 429, to a request that was not passed to Fastify. */
export function refuse({ request, response, address, corsHeaders, isLast, count }: Refusal): void {
  const { representation, vendor } = address
  const requestId = getRequestId(request)
  const { headers: limitHeaders, retryAfter } = count
  const failure = retryAfter === undefined ? overloaded : limitExceeded
  const body = writeError(representation.error, failure, requestId)
  const { version } = representation
  const type = vendor ? `${VENDOR_TYPE};version=${version}` : 'application/json; charset=utf-8'
  const headers = [
    ...['X-Request-Id', requestId, 'API-Version', `${version}`, 'Content-Type', type],
    ...['Content-Length', `${Buffer.byteLength(body)}`],
    ...Object.entries(limitHeaders).flatMap(([name, value]) => [name, `${value}`]),
    ...['Retry-After', `${retryAfter ?? overloaded.headers['Retry-After']}`],
    ...commonHeaders,
  ]
  if (isLast) headers.push('Connection', 'close')
  for (const name in corsHeaders) headers.push(name, corsHeaders[name] ?? '')
  response.writeHead(failure.status, headers)
  response.end(body)
}
