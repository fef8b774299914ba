/** Bounds what is read of a body after its response: a client that goes on sending would keep the server busy. */
import { hasBody } from '@resource-api/api/requests'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'

/** Bytes: four times BODY_LIMIT. Some clients see the response only when all of their body is read. */
const MAX_DISCARDED_BYTES = 4_194_304
/** Time to read the response for a client whose body is not read any more. A reset could overtake it. */
const CLOSE_DELAY_MS = 1_000

/**
 * Closes the connection of a client that sends too much of a body after the response. Up to then the rest is discarded as it
 * arrives, so that the client gets the response and the connection stays usable.
 */
async function discardedBodies({ server }: FastifyInstance) {
  // Not a hook: some responses are sent before Fastify sees the request.
  server.on('request', (request, response) => {
    if (!hasBody(request)) return
    // Before Node's own listener, which discards a body of which nothing was read without emitting it.
    response.prependOnceListener('finish', () => {
      if (request.complete) return
      const { socket } = request
      let discarded = 0
      const discard = ({ length }: Buffer) => {
        discarded += length
        if (discarded <= MAX_DISCARDED_BYTES) return
        request.off('data', discard).pause()
        setTimeout(() => socket.destroy(), CLOSE_DELAY_MS).unref()
      }
      request.on('data', discard)
    })
  })
}

export default fp(discardedBodies, { name: 'discarded-bodies' })
