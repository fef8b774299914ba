/** Reads the client's address when a connection opens, so that it is known after the client has reset it. */
import type { Socket } from 'node:net'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'

/**
 * Node.js asks the system for the address when `socket.remoteAddress` is first read, and keeps it from then on. Once
 * the client has reset the connection the system has none, while requests that were pipelined on it still wait for
 * their turn: they were counted under no address and failed with 500, two lines in the log for each.
 */
function readAddress(socket: Socket): void {
  // Reset before it was accepted: nothing that it sent can be answered.
  if (socket.remoteAddress === undefined) socket.destroy()
}

async function remoteAddress(app: FastifyInstance) {
  app.server.on('connection', readAddress)
  // With TLS, requests have a socket of their own, which exists from the end of the handshake on.
  app.server.on('secureConnection', readAddress)
}

export default fp(remoteAddress, { name: 'remote-address' })
