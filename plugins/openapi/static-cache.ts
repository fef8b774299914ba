/** Static cache headers for routes whose content changes only with a release: public, with an entity tag. */
import type { FastifyInstance, FastifyReply } from 'fastify'
import fp from 'fastify-plugin'
import { buildTextTag, entityTags } from '../http/preconditions.ts'

/** A text and its entity tag, which is computed once because the text may have megabytes. */
export interface TaggedText {
  text: string
  tag: string
}

export const addTag = (text: string): TaggedText => ({ text, tag: buildTextTag(text) })

export const sendTagged = (reply: FastifyReply, type: string, { tag, text }: TaggedText) =>
  reply.header('ETag', tag).type(type).send(text)

export default fp(
  async (scope: FastifyInstance) => {
    await scope.register(entityTags)
    scope.addHook('onRequest', async (_request, reply) => {
      reply.header('Cache-Control', 'public, no-cache')
    })
  },
  { name: 'static-cache' },
)
