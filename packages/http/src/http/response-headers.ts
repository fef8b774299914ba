/** Sets the headers of every response, and rejects plain HTTP if a setting says so. */
import { IncomingMessage, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import { apiError } from '@resource-api/api/errors'
import { VARY, VENDOR_TYPE } from '@resource-api/api/versions'
import type { FastifyInstance, FastifyReply } from 'fastify'
import fp from 'fastify-plugin'
import helmet, { type HelmetOptions } from 'helmet'
import type { Config } from '../config/settings.ts'

/** The policy of the API, which keeps a browser from rendering, framing or sharing a response. Pages have their own. */
export const securityPolicy = {
  contentSecurityPolicy: {
    useDefaults: false,
    directives: { defaultSrc: ["'none'"], frameAncestors: ["'none'"] },
  },
  xFrameOptions: { action: 'deny' },
  // Depends on the request: see below.
  strictTransportSecurity: false,
  // Only pages need these.
  crossOriginOpenerPolicy: false,
  originAgentCluster: false,
  xDnsPrefetchControl: false,
  xPermittedCrossDomainPolicies: false,
  // Obsolete: X-XSS-Protection introduced vulnerabilities, X-Download-Options was for Internet Explorer.
  xXssProtection: false,
  xDownloadOptions: false,
  // Nothing here sends X-Powered-By.
  xPoweredBy: false,
} satisfies HelmetOptions

/** Returns the headers that helmet sets for a policy. */
function collectHeaders(policy: HelmetOptions): Record<string, string> {
  const headers: Record<string, string> = {}
  const response = new ServerResponse(new IncomingMessage(new Socket()))
  response.setHeader = (name, value) => {
    headers[name] = String(value)
    return response
  }
  helmet(policy)(response.req, response, () => undefined)
  return headers
}

/**
 * The headers of the policy, collected once. @fastify/helmet builds them for each response: a product by id then took 1.16
 * times the CPU, a 304 1.11 times (W1 and W7 of `bench/`, 15 rounds). So it serves pages only: plugins/security.ts.
 */
export const securityHeaders = collectHeaders(securityPolicy)

// Lower-case names, which Fastify does not have to convert for each response.
const securityEntries = Object.entries(securityHeaders).map(
  ([name, value]) => [name.toLowerCase(), value] as const,
)
const versionedHeaders = { ...Object.fromEntries(securityEntries), vary: VARY }

/** Adds a request header to the `Vary` of a response. */
export function addVary(reply: FastifyReply, name: string): void {
  const names = reply.getHeader('vary')
  reply.header('vary', names === undefined ? name : `${names}, ${name}`)
}

/** One year. Without `includeSubDomains`: this service does not know whether other subdomains support HTTPS. */
const HSTS = 'max-age=31536000'

/** Paths that orchestrators and Prometheus request from the internal network, without the proxy that terminates TLS. */
const PLAIN_HTTP_PATHS = new Set(['/livez', '/readyz', '/metrics'])

type HeaderConfig = Partial<Pick<Config, 'NODE_ENV' | 'TRUST_PROXY' | 'INSECURE_HTTP'>>

/**
 * Must be registered before every plugin that may reject a request, since rejections have these headers too. In production
 * behind a proxy, whose `X-Forwarded-Proto` is trusted, requests over plain HTTP are rejected with 403. Without
 * `TRUST_PROXY` the client itself could have set that header.
 */
async function responseHeaders(app: FastifyInstance, { NODE_ENV, TRUST_PROXY, INSECURE_HTTP }: HeaderConfig) {
  const refusesPlain = NODE_ENV === 'production' && TRUST_PROXY !== undefined && !INSECURE_HTTP
  app.addHook('onRequest', (request, reply, done) => {
    const { isVersioned, representation, path } = app.addressing.getAddress(request.raw)
    reply.header('x-request-id', request.id)
    // Headers set through Fastify are written in one call, raw headers one by one. What is outside the versions has raw
    // ones, which helmet replaces on pages.
    if (isVersioned) reply.headers(versionedHeaders).header('api-version', representation.version)
    else for (const [name, value] of securityEntries) reply.raw.setHeader(name, value)
    // Behind a trusted proxy, Fastify reads X-Forwarded-Proto, which `forwarded.ts` has normalized. Otherwise it asks the
    // socket.
    if (request.protocol === 'https') reply.header('strict-transport-security', HSTS)
    else if (refusesPlain && !PLAIN_HTTP_PATHS.has(request.routeOptions.url ?? path)) {
      throw apiError('FORBIDDEN', { message: 'HTTPS is required' })
    }
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
