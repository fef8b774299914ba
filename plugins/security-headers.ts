/** The headers that keep a browser from making more of a reply than it is. */
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { securityHeaders } from './docs/headers.ts'

// In small letters: others Fastify would have to make small for each reply.
const all = Object.entries(securityHeaders).map(([name, value]) => [name.toLowerCase(), value] as const)
const small = Object.fromEntries(all)

export default fp(
  async (app: FastifyInstance) => {
    // By hand: they never change, and helmet, made for pages, costs each reply ten times as much.
    app.addHook('onRequest', (request, reply, next) => {
      // A reply whose headers are all Fastify's own is written at once; one to whose raw side something was added, a
      // header at a time. There it is done, where helmet can put the documentation's own in their place.
      if (app.addressing.of(request.raw).isVersioned) reply.headers(small)
      else for (const [name, value] of all) reply.raw.setHeader(name, value)
      next()
    })
  },
  { name: 'security-headers' },
)
