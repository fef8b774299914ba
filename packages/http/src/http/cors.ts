/** Cross-origin resource sharing: allows the listed origins to call the service; by default none. */
import cors, { type FastifyCorsOptions } from '@fastify/cors'
import { getOptionsHeaders } from '@resource-api/api/requests'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import type { Config } from '../config/settings.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** Returns the CORS headers for an origin, for responses that are sent without hooks. */
    getCorsHeaders(origin: string | undefined): Record<string, string>
  }
}

/** Request headers that a page may send, in addition to those that browsers always allow. */
const ALLOWED_HEADERS = [
  ...['Accept', 'Authorization', 'Content-Type', 'Idempotency-Key', 'Prefer', 'X-API-Key', 'X-Request-Id'],
  ...['If-Match', 'If-None-Match', 'If-Modified-Since', 'If-Unmodified-Since', 'Last-Event-ID'],
  // Of replacements for EventSource that send credentials.
  'Cache-Control',
  // Of agents in browsers.
  ...['MCP-Protocol-Version', 'Mcp-Method', 'Mcp-Name'],
]

/** Response headers that a page's scripts may read. */
const EXPOSED_HEADERS = [
  ...['Accept', 'Accept-Patch', 'Allow', 'API-Version', 'Content-Disposition', 'Deprecation'],
  ...['ETag', 'Idempotency-Replayed', 'Preference-Applied'],
  ...['Link', 'Location', 'Retry-After', 'Sunset', 'WWW-Authenticate', 'X-Request-Id'],
  ...['X-RateLimit-Limit', 'X-RateLimit-Remaining', 'X-RateLimit-Reset'],
]

/** The methods for unknown paths: a page can read their 404 only if the preflight succeeds. */
const ALL_METHODS = 'DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT'

/** How long a browser may cache a preflight. Chromium caches no longer than this. */
const PREFLIGHT_MAX_AGE_SECONDS = 7_200

const isPreflight = ({ method, headers }: FastifyRequest) =>
  method === 'OPTIONS' && headers['access-control-request-method'] !== undefined

async function corsPlugin(app: FastifyInstance, { CORS_ORIGINS: origins }: Pick<Config, 'CORS_ORIGINS'>) {
  const isAny = origins.includes('*')
  const isListed = (origin: string | undefined) => origin !== undefined && (isAny || origins.includes(origin))
  app.decorate('getCorsHeaders', (origin) => ({
    ...(origins.length > 0 && { Vary: 'Origin' }),
    ...(origin !== undefined &&
      isListed(origin) && {
        'Access-Control-Allow-Origin': isAny ? '*' : origin,
        'Access-Control-Expose-Headers': EXPOSED_HEADERS.join(', '),
      }),
  }))
  if (origins.length === 0) return

  app.addHook('onRequest', (request, reply, done) => {
    // A preflight has the Allow headers of every other OPTIONS request; @fastify/cors answers it in the next hook.
    const { allow } = request.routeOptions.config
    if (allow !== undefined && isPreflight(request)) reply.headers(getOptionsHeaders(allow))
    done()
  })
  await app.register(cors, {
    // An origin that is not listed gets no CORS headers. OPTIONS requests that are no preflight are left to the route
    // (method-not-allowed.ts). Not async: the hooks of request-validation.ts must run synchronously.
    delegator: (request: FastifyRequest, done: (error: null, options: FastifyCorsOptions) => void) =>
      done(null, {
        origin: isAny ? '*' : [...origins],
        allowedHeaders: ALLOWED_HEADERS,
        // Pages set tokens and API keys as headers; the API uses no cookies.
        credentials: false,
        maxAge: PREFLIGHT_MAX_AGE_SECONDS,
        strictPreflight: false,
        ...(isListed(request.headers.origin) ? { exposedHeaders: EXPOSED_HEADERS } : {}),
        preflight: isPreflight(request) && isListed(request.headers.origin),
        methods: request.routeOptions.config.allow ?? ALL_METHODS,
      }),
  })
}

export default fp(corsPlugin, { name: 'cors', dependencies: ['errors'] })
