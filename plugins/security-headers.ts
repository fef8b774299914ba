/** The headers that keep a browser from making more of a reply than it is. */
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { securityHeaders } from './docs/headers.ts'

const all = Object.entries(securityHeaders)

export default fp(
  async (app: FastifyInstance) => {
    // By hand: they never change, and helmet, made for pages, costs each reply ten times as much. On the raw reply,
    // where helmet can put the documentation's own in their place.
    app.addHook('onRequest', (_request, { raw }, next) => {
      for (const [name, value] of all) raw.setHeader(name, value)
      next()
    })
  },
  { name: 'security-headers' },
)
