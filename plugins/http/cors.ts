/** Which pages of other origins may call the service: those of the list, and where it is empty, none. */
import cors, { type FastifyCorsOptions } from '@fastify/cors'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { describeMethods } from './method-not-allowed.ts'
import { configOf } from './route-config.ts'

interface CorsOptions {
  /** As browsers write them into `Origin`; `*` for any. */
  origins: readonly string[]
}

declare module 'fastify' {
  interface FastifyInstance {
    /** What a reply tells the page of that origin, for those that pass no hook. */
    crossOrigin(origin: string | undefined): Record<string, string>
  }
}

/** What a page may send beside what browsers let through anyway. */
const ALLOWED = [
  ...['Accept', 'Authorization', 'Content-Type', 'Idempotency-Key', 'X-API-Key', 'X-Request-Id'],
  ...['If-Match', 'If-None-Match', 'If-Modified-Since', 'If-Unmodified-Since'],
]

/** What its scripts may read of a reply. */
const EXPOSED = [
  ...[
    'Accept',
    'Accept-Patch',
    'Allow',
    'API-Version',
    'Deprecation',
    'ETag',
    'Idempotency-Replayed',
    'Link',
    'Location',
  ],
  ...['Retry-After', 'Sunset', 'WWW-Authenticate', 'X-Request-Id'],
  ...['X-RateLimit-Limit', 'X-RateLimit-Remaining', 'X-RateLimit-Reset'],
]

/** For paths that nobody answers: only where the preflight succeeds can a page read their 404. */
const EVERY_METHOD = 'DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT'

/** Seconds that a browser may remember a preflight; Chromium takes no more. */
const MAX_AGE = 7_200

const isPreflight = ({ method, headers }: FastifyRequest) =>
  method === 'OPTIONS' && headers['access-control-request-method'] !== undefined

async function plugin(app: FastifyInstance, { origins }: CorsOptions) {
  const isAny = origins.includes('*')
  const isListed = (origin: string | undefined) => origin !== undefined && (isAny || origins.includes(origin))
  app.decorate('crossOrigin', (origin) => ({
    ...(origins.length > 0 ? { Vary: 'Origin' } : {}),
    ...(origin !== undefined && isListed(origin)
      ? {
          'Access-Control-Allow-Origin': isAny ? '*' : origin,
          'Access-Control-Expose-Headers': EXPOSED.join(', '),
        }
      : {}),
  }))
  if (origins.length === 0) return

  app.addHook('onRequest', (request, reply, done) => {
    // Of every OPTIONS, a preflight among them; @fastify/cors answers it in the hook that comes next.
    const { allow } = configOf(request)
    if (allow !== undefined && isPreflight(request)) reply.headers(describeMethods(allow))
    done()
  })
  const common: FastifyCorsOptions = {
    origin: isAny ? '*' : [...origins],
    allowedHeaders: ALLOWED,
    // Tokens and keys are headers that a page sets itself; cookies mean nothing here.
    credentials: false,
    maxAge: MAX_AGE,
    strictPreflight: false,
  }
  await app.register(cors, {
    delegator: (
      request: FastifyRequest,
      callback: (error: Error | null, options: FastifyCorsOptions) => void,
    ) =>
      callback(null, {
        ...common,
        // Who is not listed learns nothing, and any OPTIONS that is no preflight is answered as ever.
        ...(isListed(request.headers.origin) ? { exposedHeaders: EXPOSED } : {}),
        preflight: isPreflight(request) && isListed(request.headers.origin),
        methods: configOf(request).allow ?? EVERY_METHOD,
      }),
  })
}

export default fp(plugin, { name: 'cors', dependencies: ['errors'] })
