/** What every reply says of its address, and the addresses that nobody answers. */
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { apiError } from '../errors/index.ts'
import { VENDOR } from './accept.ts'
import { VARY } from './addresses.ts'

const LONGEST_QUERY = 8_192

/** Must be registered before every plugin that may refuse a request: a refusal has these headers too. */
async function addressing(app: FastifyInstance) {
  app.addHook('onRequest', (request, reply, done) => {
    const { isVersioned, representation } = app.addressing.of(request.raw)
    if (isVersioned) {
      // In small letters: others Fastify would have to make small for each reply.
      reply.header('api-version', representation.version)
      reply.header('vary', VARY)
    }
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

/** Refuses addresses that are too long or unknown, after the checks of the request's head. */
export const checkAddress = fp(
  async (app: FastifyInstance) => {
    app.addHook('onRequest', (request, _reply, done) => {
      const { query } = app.addressing.of(request.raw)
      if (query.length > LONGEST_QUERY + '?'.length) throw apiError('URI_TOO_LONG')
      // Here rather than in a handler, which would come after the body was read.
      if (request.is404) throw apiError('RESOURCE_NOT_FOUND')
      done()
    })
  },
  { name: 'check-address', dependencies: ['addressing'] },
)
