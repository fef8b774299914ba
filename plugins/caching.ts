/** Entity tags of documents and keys: @fastify/etag makes the tag of each response, which preconditions are compared with. */
import etag from '@fastify/etag'
import { compareTag, entityTagOptions } from '@resource-api/api/preconditions'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'

async function caching(scope: FastifyInstance) {
  await scope.register(etag, entityTagOptions)
  scope.addHook('onSend', compareTag)
}

export default fp(caching, { name: 'caching', dependencies: ['head-not-modified'] })
