/** Sets the headers of every response: request id, security, API version, HSTS, media type and, at the end, `Connection`. */
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { VENDOR_TYPE } from '../versioning/accept.ts'
import { VARY } from '../versioning/addresses.ts'

/** The headers that keep a browser from rendering, framing or sharing a response of the API. */
export const securityHeaders = {
  'Content-Security-Policy': "default-src 'none'; frame-ancestors 'none'",
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Referrer-Policy': 'no-referrer',
  'X-Content-Type-Options': 'nosniff',
  'X-Frame-Options': 'DENY',
} as const

/** One year. Without `includeSubDomains`: this service does not know whether other subdomains support HTTPS. */
const HSTS = 'max-age=31536000'

// Lower-case names, which Fastify does not have to convert for each response.
const securityEntries = Object.entries(securityHeaders).map(
  ([name, value]) => [name.toLowerCase(), value] as const,
)
const versionedHeaders = { ...Object.fromEntries(securityEntries), vary: VARY }

/** Must be registered before every plugin that may reject a request, since rejections have these headers too. */
async function responseHeaders(app: FastifyInstance) {
  // Replaces @fastify/helmet, which is made for web pages and takes ten times as long for each response.
  app.addHook('onRequest', (request, reply, done) => {
    const { isVersioned, representation } = app.addressing.getAddress(request.raw)
    reply.header('x-request-id', request.id)
    // Headers set through Fastify are written in one call, raw headers one by one. Pages outside the versions, such as
    // the documentation, use raw headers, which @fastify/helmet overrides there.
    if (isVersioned) reply.headers(versionedHeaders).header('api-version', representation.version)
    else for (const [name, value] of securityEntries) reply.raw.setHeader(name, value)
    // Behind a trusted proxy, Fastify reads the last value of X-Forwarded-Proto, which that proxy wrote. Otherwise it
    // asks the socket.
    if (request.protocol.toLowerCase() === 'https') reply.header('strict-transport-security', HSTS)
    done()
  })

  app.addHook('onSend', (request, reply, payload, done) => {
    const { vendor, representation } = app.addressing.getAddress(request.raw)
    // Set here, since Fastify adds a charset to a Content-Type that is set earlier, and this type has none.
    if (vendor && payload) reply.header('content-type', `${VENDOR_TYPE};version=${representation.version}`)
    // Clients then send their next request on a new connection, which a load balancer routes to another process.
    if (app.draining) reply.header('connection', 'close')
    done(null, payload)
  })
}

export default fp(responseHeaders, { name: 'response-headers', dependencies: ['errors'] })
