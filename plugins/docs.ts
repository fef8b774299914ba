/** The OpenAPI documents, one for each version, written by the routes themselves. */
import swagger from '@fastify/swagger'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import type { Version } from './version.ts'

type Document = Record<string, unknown>

declare module 'fastify' {
  interface FastifyInstance {
    /** The OpenAPI documents by version, complete once the app is ready. */
    documents: Map<number, () => Document>
  }
}

export interface DocumentOptions {
  version: Version
  appVersion: string
}

/** In a version's scope, before its routes. */
export const document = fp(
  async (app: FastifyInstance, { version: { representation, deprecated }, appVersion }: DocumentOptions) => {
    await app.register(swagger, {
      openapi: {
        openapi: '3.1.0',
        info: {
          title: 'resource-api',
          version: appVersion,
          license: { name: 'MIT', identifier: 'MIT' },
        },
        servers: [{ url: '/' }],
        components: {
          securitySchemes: {
            bearer: { type: 'http', scheme: 'bearer', bearerFormat: 'JWT' },
            apiKey: { type: 'apiKey', in: 'header', name: 'X-API-Key' },
          },
        },
      },
      transform: ({ schema, url }) => ({
        schema: deprecated ? { ...schema, deprecated: true } : schema,
        url,
      }),
    })
    app.documents.set(representation.version, () => app.swagger() as unknown as Document)
  },
  { name: 'document' },
)

async function docs(app: FastifyInstance) {
  app.decorate('documents', new Map())
  app.route({
    method: 'GET',
    url: '/openapi/:file',
    config: { access: 'public' },
    schema: { hide: true },
    handler: (request, reply) => {
      const { file } = request.params as { file: string }
      const found = app.documents.get(Number(/^v(\d+)\.json$/.exec(file)?.[1]))
      return found ? found() : reply.callNotFound()
    },
  })
}

export default fp(docs, { name: 'docs', dependencies: ['access'] })
