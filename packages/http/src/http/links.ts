/** Sets the links of a response (RFC 8288). */
import type { FastifyReply } from 'fastify'

/** Adds links to those that the response has, such as that of a deprecated version to its successor. */
export function addLinks(reply: FastifyReply, ...links: readonly string[]): void {
  const earlier = reply.getHeader('link')
  reply.header('link', [...(earlier === undefined ? [] : [earlier]), ...links].join(', '))
}
