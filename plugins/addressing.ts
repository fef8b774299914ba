/** What every reply says of its address, and the addresses that nobody answers. */
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { apiError } from './errors.ts'
import { VENDOR } from './version/accept.ts'

const LONGEST_QUERY = 8_192
const VARY = 'Accept, Authorization, X-API-Key'

async function addressing(app: FastifyInstance) {
  app.addHook('onRequest', (request, reply, done) => {
    const { isVersioned, representation, query } = app.addressing.of(request.raw)
    if (isVersioned) {
      // In small letters: others Fastify would have to make small for each reply.
      reply.header('api-version', representation.version)
      const vary = reply.getHeader('vary')
      reply.header('vary', vary === undefined ? VARY : `${VARY}, ${vary}`)
    }
    if (query.length > LONGEST_QUERY + '?'.length) throw apiError('URI_TOO_LONG')
    // Here rather than in a handler, which would come after the body was read.
    if (request.is404) throw apiError('RESOURCE_NOT_FOUND')
    done()
  })

  // In `onSend`, since Fastify adds a charset to what was set before, and this type has none.
  app.addHook('onSend', (request, reply, payload, done) => {
    const { vendor, representation } = app.addressing.of(request.raw)
    if (vendor && payload) reply.header('Content-Type', `${VENDOR};version=${representation.version}`)
    done(null, payload)
  })
}

export default fp(addressing, { name: 'addressing', dependencies: ['errors'] })
