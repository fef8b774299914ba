/** Reads the client's address when a connection opens, so that it is known after the client has reset it. */
import type { Socket } from 'node:net'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'

/**
 * Node.js reads the address from the operating system on the first access to `socket.remoteAddress`, and caches it. After
 * the client has reset the connection, the operating system has none, while pipelined requests of that connection still
 * wait to be processed: rate limits counted them under no address, and each failed with 500 and two log lines.
 */
function cacheAddress(socket: Socket): void {
  // The connection was reset before it was accepted, so no response can be sent.
  if (socket.remoteAddress === undefined) socket.destroy()
}

async function remoteAddress(app: FastifyInstance) {
  app.server.on('connection', cacheAddress)
  // With TLS, requests have the TLS socket, which exists after the handshake.
  app.server.on('secureConnection', cacheAddress)
}

export default fp(remoteAddress, { name: 'remote-address' })
