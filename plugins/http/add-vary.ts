/** Adds a request header to the `Vary` of a response. */
import type { FastifyReply } from 'fastify'

export function addVary(reply: FastifyReply, name: string): void {
  const names = reply.getHeader('vary')
  reply.header('vary', names === undefined ? name : `${names}, ${name}`)
}
