/** Rejects requests over plain HTTP, if a setting says so. */
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { apiError } from '../errors/index.ts'

interface HttpsOnlyOptions {
  /** Whether requests over plain HTTP are rejected with 403. */
  refusePlain: boolean
}

/** Paths that orchestrators and Prometheus request from the internal network, without the proxy that terminates TLS. */
const PLAIN_HTTP_PATHS = new Set(['/livez', '/readyz', '/metrics'])

async function httpsOnly(app: FastifyInstance, { refusePlain }: HttpsOnlyOptions) {
  if (!refusePlain) return
  app.addHook('onRequest', ({ protocol, raw, routeOptions }, _reply, done) => {
    if (
      protocol.toLowerCase() !== 'https' &&
      !PLAIN_HTTP_PATHS.has(routeOptions.url ?? app.addressing.getAddress(raw).path)
    ) {
      throw apiError('FORBIDDEN', { message: 'HTTPS is required' })
    }
    done()
  })
}

export default fp(httpsOnly, { name: 'https-only', dependencies: ['errors'] })
