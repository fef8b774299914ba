/** Reports and sends the 503 of requests that are refused because of overload. */
import { channel } from 'node:diagnostics_channel'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { apiError } from '@resource-api/api/errors'
import { getChannelName } from '@resource-api/database/values'
import type { FastifyInstance } from 'fastify'
import { buildErrorResponse } from '../http/responses-without-hooks.ts'
import { getRequestId } from '../lib/request-id.ts'
import type { OverloadedCount } from '../rate-limit/limits.ts'

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
  contention: 'line',
})
const limitExceeded = apiError('RATE_LIMIT_EXCEEDED')

/**
 * Responds 503, or 429 if the caller's limit is exceeded too. Writes to Node's response directly, since a
 * refusal has to be cheap.
 */
export function refuse(
  app: FastifyInstance,
  request: IncomingMessage,
  response: ServerResponse,
  { isExceeded, headers: limitHeaders }: OverloadedCount,
): void {
  const error = isExceeded ? limitExceeded : overloaded
  const address = app.addressing.getAddress(request)
  // With these, a page of another origin can read the response.
  const corsHeaders = app.getCorsHeaders(request.headers.origin)
  const { headers, body } = buildErrorResponse(app, error, address, getRequestId(request), corsHeaders)
  const closing = app.draining ? { Connection: 'close' } : {}
  response.writeHead(error.status, { ...headers, ...limitHeaders, ...closing }).end(body)
}
