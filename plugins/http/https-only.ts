/** How a request came: over HTTPS, which browsers are told to keep to, or over plain HTTP, which may be refused. */
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { apiError } from '../errors/index.ts'

interface TransportOptions {
  /** Whether what came by plain HTTP is refused. */
  refusePlain: boolean
}

/**
 * A year. Not for subdomains: which there are beside this one, and whether they speak HTTPS, only their owner knows.
 */
const HSTS = 'max-age=31536000'

/** For those who ask from within, past the proxy. */
const FREE = new Set(['/livez', '/readyz', '/metrics'])

async function transport(app: FastifyInstance, { refusePlain }: TransportOptions) {
  app.addHook('onRequest', (request, reply, done) => {
    // Of X-Forwarded-Proto, Fastify takes what the trusted proxy wrote, which stands last; else the socket tells.
    const isSecure = request.protocol.toLowerCase() === 'https'
    if (isSecure) reply.header('Strict-Transport-Security', HSTS)
    else if (refusePlain && !FREE.has(request.routeOptions.url ?? app.addressing.of(request.raw).path)) {
      throw apiError('FORBIDDEN', { message: 'HTTPS is required' })
    }
    done()
  })
}

export default fp(transport, { name: 'transport', dependencies: ['errors'] })
