/** Bounds what is read of a body after its response: a client that goes on sending would keep the server busy. */
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { hasBody } from './content-type.ts'

/**
 * Bytes. Most clients read the response while they send, and stop. The others need the rest to be read before they see it:
 * this is four times BODY_LIMIT.
 */
const MAX_DISCARDED_BYTES = 4_194_304

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
      let discarded = 0
      request.on('data', ({ length }: Buffer) => {
        discarded += length
        if (discarded > MAX_DISCARDED_BYTES) request.socket.destroy()
      })
    })
  })
}

export default fp(discardedBodies, { name: 'discarded-bodies' })
