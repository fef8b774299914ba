/** Responds to requests that Fastify rejects before routing, such as a path that cannot be decoded. */
import { channel } from 'node:diagnostics_channel'
import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify'
import { getChannelName } from '../../lib/identity.ts'
import { sendError } from '../errors/index.ts'
import { getVersionHeaders } from '../versioning/addresses.ts'
import { securityHeaders } from './response-headers.ts'

const malformed = channel(getChannelName('http:malformed'))

/**
 * The `frameworkErrors` option of Fastify. No hook runs for these requests, so this function adds the headers that hooks
 * add to other responses. It adds no rate limit headers: the request has no `trustProxy` setting yet, so the client's
 * address, which selects the rate limit, is not known.
 */
export const frameworkErrors = (error: FastifyError, request: FastifyRequest, reply: FastifyReply) => {
  const { server, headers, id, raw } = request
  const corsHeaders = server.hasDecorator('getCorsHeaders') ? server.getCorsHeaders(headers.origin) : {}
  const versionHeaders = getVersionHeaders(server.addressing.getAddress(raw))
  const vary = [versionHeaders.Vary, corsHeaders.Vary].filter(Boolean).join(', ')
  reply.headers({
    ...securityHeaders,
    ...versionHeaders,
    ...corsHeaders,
    ...(vary && { Vary: vary }),
    'X-Request-Id': id,
  })
  sendError(error, request, reply)
  if (malformed.hasSubscribers) malformed.publish({ status: reply.statusCode })
}
