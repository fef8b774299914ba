/** Adds the headers that name a response's version and media type, and rejects long and unknown addresses. */
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { apiError } from '../errors/index.ts'
import { VENDOR_TYPE } from './accept.ts'
import { VARY } from './addresses.ts'

/** Characters, without the question mark. */
const MAX_QUERY_LENGTH = 8_192

/** Must be registered before every plugin that may reject a request, since rejections have these headers too. */
async function addressing(app: FastifyInstance) {
  app.addHook('onRequest', (request, reply, done) => {
    const { isVersioned, representation } = app.addressing.getAddress(request.raw)
    if (isVersioned) {
      // Lower-case names, which Fastify does not have to convert for each response.
      reply.header('api-version', representation.version)
      reply.header('vary', VARY)
    }
    done()
  })

  // In `onSend`, since Fastify adds a charset to a Content-Type that is set earlier, and this type has none.
  app.addHook('onSend', (request, reply, payload, done) => {
    const { vendor, representation } = app.addressing.getAddress(request.raw)
    if (vendor && payload) reply.header('Content-Type', `${VENDOR_TYPE};version=${representation.version}`)
    done(null, payload)
  })
}

export default fp(addressing, { name: 'addressing', dependencies: ['errors'] })

/** Rejects addresses that are too long or unknown. Must be registered after the header validation. */
export const checkAddress = fp(
  async (app: FastifyInstance) => {
    app.addHook('onRequest', (request, _reply, done) => {
      const { query } = app.addressing.getAddress(request.raw)
      if (query.length > MAX_QUERY_LENGTH + '?'.length) {
        throw apiError('URI_TOO_LONG', {
          message: `The query string is longer than ${MAX_QUERY_LENGTH} characters`,
        })
      }
      // In this hook, since a not-found handler would run after the body was read.
      if (request.is404) throw apiError('RESOURCE_NOT_FOUND')
      done()
    })
  },
  { name: 'check-address', dependencies: ['addressing'] },
)
