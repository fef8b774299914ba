/**
 * Refuses requests because of overload: reports each refusal, and writes the 503 directly to Node's response, since through
 * Fastify it takes three times as long.
 */
import { channel } from 'node:diagnostics_channel'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { FastifyInstance } from 'fastify'
import { getChannelName } from '../../lib/identity.ts'
import { getRequestId } from '../../lib/request-id.ts'
import { apiError } from '../errors/index.ts'
import { buildErrorResponse } from '../http/responses-without-hooks.ts'
import type { OverloadedCount } from '../rate-limit/limits.ts'
import type { Address } from '../versioning/addresses.ts'

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
    refused.publish({ reason })
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
  const { headers: limitHeaders, retryAfter } = count
  const error = retryAfter === undefined ? overloaded : limitExceeded
  const { headers, body } = buildErrorResponse(error, address, getRequestId(request), corsHeaders)
  response.writeHead(error.status, {
    ...headers,
    ...limitHeaders,
    ...(retryAfter !== undefined && { 'Retry-After': retryAfter }),
    ...(isLast && { Connection: 'close' }),
  })
  response.end(body)
}
