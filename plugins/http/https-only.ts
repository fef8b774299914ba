/** Sends HSTS with responses over HTTPS, and can reject requests over plain HTTP. */
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { apiError } from '../errors/index.ts'

interface HttpsOnlyOptions {
  /** Whether requests over plain HTTP are rejected with 403. */
  refusePlain: boolean
}

/** One year. Without `includeSubDomains`: this service does not know whether other subdomains support HTTPS. */
const HSTS = 'max-age=31536000'

/** Paths that orchestrators and Prometheus request from the internal network, without the proxy that terminates TLS. */
const PLAIN_HTTP_PATHS = new Set(['/livez', '/readyz', '/metrics'])

async function httpsOnly(app: FastifyInstance, { refusePlain }: HttpsOnlyOptions) {
  app.addHook('onRequest', (request, reply, done) => {
    // Behind a trusted proxy, Fastify reads the last value of X-Forwarded-Proto, which that proxy wrote. Otherwise it
    // asks the socket.
    const isSecure = request.protocol.toLowerCase() === 'https'
    if (isSecure) reply.header('Strict-Transport-Security', HSTS)
    else if (
      refusePlain &&
      !PLAIN_HTTP_PATHS.has(request.routeOptions.url ?? app.addressing.getAddress(request.raw).path)
    ) {
      throw apiError('FORBIDDEN', { message: 'HTTPS is required' })
    }
    done()
  })
}

export default fp(httpsOnly, { name: 'https-only', dependencies: ['errors'] })
