/** A scope of what is the same until the next release, for everybody, and no part of the API itself. */
import type { FastifyInstance, FastifyReply } from 'fastify'
import fp from 'fastify-plugin'
import { buildTextTag, entityTags } from '../collection/request/preconditions.ts'

/** A text beside its entity tag. The text may have megabytes, so the tag is computed once. */
export interface TaggedText {
  text: string
  tag: string
}

export const withTag = (text: string): TaggedText => ({ text, tag: buildTextTag(text) })

export const sendTagged = (reply: FastifyReply, type: string, { tag, text }: TaggedText) =>
  reply.header('ETag', tag).type(type).send(text)

export default fp(
  async (scope: FastifyInstance) => {
    await scope.register(entityTags)
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
