/** Replies to what Fastify refuses before it has found a route, such as a path that cannot be decoded. */
import { channel } from 'node:diagnostics_channel'
import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify'
import { sendError } from '../errors/index.ts'
import { versionHeaders } from '../versioning/addresses.ts'
import { securityHeaders } from './security-headers.ts'

const malformed = channel('resource-api:http:malformed')

/**
 * The `frameworkErrors` option of Fastify. No hook runs for these requests, so the headers that hooks put on every reply
 * are put here. The rate limit headers are missing: this request does not know which proxies are trusted, and so not
 * which address its window has.
 */
export const frameworkErrors = (error: FastifyError, request: FastifyRequest, reply: FastifyReply) => {
  const { server, headers, id, raw } = request
  const corsHeaders = server.hasDecorator('crossOrigin') ? server.crossOrigin(headers.origin) : {}
  const ofVersion = versionHeaders(server.addressing.of(raw))
  const vary = [ofVersion.Vary, corsHeaders.Vary].filter(Boolean).join(', ')
  reply.headers({
    ...securityHeaders,
    ...ofVersion,
    ...corsHeaders,
    ...(vary && { Vary: vary }),
    'X-Request-Id': id,
  })
  sendError(error, request, reply)
  if (malformed.hasSubscribers) malformed.publish({ status: reply.statusCode })
}
