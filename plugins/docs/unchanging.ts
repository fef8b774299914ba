/** A scope of what is the same until the next release, for everybody, and no part of the API itself. */
import { createHash } from 'node:crypto'
import etag from '@fastify/etag'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'

export default fp(
  async (scope: FastifyInstance) => {
    // Each payload is hashed once: they are few, and one is some megabytes.
    const hashes = new Map<string | Buffer, string>()
    const hashFn = (payload: string | Buffer): string => {
      const hash = hashes.get(payload) ?? createHash('sha1').update(payload).digest('base64url')
      hashes.set(payload, hash)
      return hash
    }
    await scope.register(etag, { hashFn })
    scope.addHook('onRequest', async (_request, reply) => {
      reply.header('Cache-Control', 'public, no-cache')
    })
    scope.addHook('onRoute', (route) => {
      route.config = { ...route.config, access: 'public' }
      route.schema = { ...route.schema, hide: true }
    })
  },
  { name: 'unchanging' },
)
