/** Errors that are sent without Fastify's hooks: of the HTTP parser, of Fastify before routing, and because of overload. */
import { channel } from 'node:diagnostics_channel'
import { type ApiError, sendError, writeError } from '@resource-api/api/errors'
import { type Address, VARY, VENDOR_TYPE } from '@resource-api/api/versions'
import { getChannelName } from '@resource-api/database/values'
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { securityHeaders } from './response-headers.ts'

/** `{ status }`: of a request that was rejected before a hook ran. Metrics count these. */
export const malformedChannel = channel(getChannelName('http:malformed'))

/** The parts of an address that select the headers and the envelope. */
type ErrorAddress = Pick<Address, 'isVersioned' | 'representation' | 'vendor'>

type Headers = Record<string, string>

/** Returns the headers that hooks add to other responses. */
function getCommonHeaders(
  { isVersioned, representation }: ErrorAddress,
  requestId: string,
  corsHeaders: Headers,
): Headers {
  const vary = [isVersioned ? VARY : undefined, corsHeaders.Vary].filter(Boolean).join(', ')
  return {
    ...securityHeaders,
    ...corsHeaders,
    ...(isVersioned && { 'API-Version': `${representation.version}` }),
    ...(vary && { Vary: vary }),
    'X-Request-Id': requestId,
  }
}

/** Builds an error response for Node.js, without Fastify. */
export function buildErrorResponse(
  { getHelpLink }: Pick<FastifyInstance, 'getHelpLink'>,
  error: ApiError,
  address: ErrorAddress,
  requestId: string,
  corsHeaders: Headers = {},
): { headers: Headers; body: string } {
  const { representation, vendor } = address
  const body = writeError(representation.error, error, requestId)
  const help = getHelpLink(error.code)
  return {
    headers: {
      ...getCommonHeaders(address, requestId, corsHeaders),
      'Cache-Control': 'no-store',
      'Content-Type': vendor
        ? `${VENDOR_TYPE};version=${representation.version}`
        : 'application/json; charset=utf-8',
      'Content-Length': `${Buffer.byteLength(body)}`,
      ...(help !== undefined && { Link: help }),
      ...error.headers,
    },
    body,
  }
}

/**
 * The `frameworkErrors` option of Fastify, for example for a path that cannot be decoded. It adds no rate limit headers:
 * the request has no `trustProxy` setting yet, so the client's address, which selects the rate limit, is not known.
 */
export const frameworkErrors = (error: FastifyError, request: FastifyRequest, reply: FastifyReply) => {
  const { server, headers, id, raw } = request
  const corsHeaders = server.hasDecorator('getCorsHeaders') ? server.getCorsHeaders(headers.origin) : {}
  reply.headers(getCommonHeaders(server.addressing.getAddress(raw), id, corsHeaders))
  sendError(error, request, reply)
  malformedChannel.publish({ status: reply.statusCode })
}
