/** The OpenAPI documents, one for each version, written by the routes themselves; and the page that shows them. */
import swagger from '@fastify/swagger'
import type { FastifyInstance, FastifySchema } from 'fastify'
import fp from 'fastify-plugin'
import { createFinisher } from './docs/finish.ts'
import { guideOf } from './docs/guide.ts'
import type { Json } from './docs/hoist.ts'
import page from './docs/page.ts'
import { failure, isEarly } from './docs/replies.ts'
import unchanging from './docs/unchanging.ts'
import type { Version } from './version.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** The OpenAPI documents by version, as they are sent; complete once the app is ready. */
    documents: Map<number, string>
    /** What stands outside every version, as @fastify/swagger tells it. */
    unversioned(): object
  }
  interface FastifySchema {
    /** For the documents: the statuses that the operation may fail with. Their replies are written by `errors.ts`. */
    failures?: readonly number[]
  }
}

export interface DocumentOptions {
  version: Version
  release: string
  publicUrl: string | undefined
  /** What the operations are grouped by. */
  tags: readonly { name: string; description: string }[]
}

const securitySchemes = {
  apiKey: {
    type: 'apiKey',
    in: 'header',
    name: 'X-API-Key',
    description:
      'A key of a user, which may do what its scopes allow. With a Bearer token, `POST /api-keys` makes one.',
  },
  bearer: {
    type: 'http',
    scheme: 'bearer',
    bearerFormat: 'JWT',
    description:
      'An access token: `POST /tokens` with an e-mail address and a password gives one, as `access_token`. ' +
      'It holds for `expires_in` seconds; `POST /tokens` with the `refresh_token` gives the next.',
  },
} as const

/** With the replies of the failures that an operation declares, which Fastify itself need not know. */
const withFailures = (
  schema: FastifySchema | undefined,
  more: readonly number[],
  told: (status: number) => object,
): FastifySchema => ({
  ...schema,
  response: {
    ...Object(schema?.response),
    ...Object.fromEntries([...(schema?.failures ?? []), ...more].map((status) => [status, told(status)])),
  },
})

const health = {
  name: 'health',
  description: 'Whether the process runs, and whether requests should be sent to it',
}

/** In a version's scope, before its routes: its document. What is no version's own stands in each of them. */
export const document = fp(
  async (app: FastifyInstance, { version, release, publicUrl, tags }: DocumentOptions) => {
    const { representation, deprecated } = version
    const ended = deprecated ? [410] : []
    await app.register(swagger, {
      openapi: { openapi: '3.1.0', components: { securitySchemes } },
      transform: ({ schema, url }) => ({
        schema: withFailures(schema, ended, (status) =>
          failure(status, isEarly(status) ? undefined : representation),
        ),
        url,
      }),
    })

    const write = (): Json => {
      const finisher = createFinisher()
      const vendorType = `application/vnd.api+json;version=${representation.version}`
      const own = finisher.paths({ ...app.swagger() }, { vendorType, deprecated: deprecated !== undefined })
      const shared = finisher.paths({ ...app.unversioned() }, { vendorType: undefined, deprecated: false })
      return {
        openapi: '3.1.0',
        info: {
          title: 'resource-api',
          version: release,
          summary: `Version ${representation.version} of the API`,
          description: guideOf(representation.version, representation.about),
          license: { name: 'MIT', identifier: 'MIT' },
        },
        servers: [{ url: publicUrl ?? '/' }],
        tags: [...tags, health].map(({ name, description }) => ({ name, description })),
        paths: { ...own, ...shared },
        components: { ...finisher.components(), securitySchemes },
      }
    }
    // When the app is ready rather than when it is asked for: what cannot be told must stop the start.
    app.addHook('onReady', async () => {
      app.documents.set(representation.version, JSON.stringify(write()))
    })
  },
  { name: 'document', dependencies: ['docs'] },
)

export interface DocsOptions {
  versions: readonly Version[]
  publicUrl: string | undefined
}

async function docs(app: FastifyInstance, { versions, publicUrl }: DocsOptions) {
  app.decorate('documents', new Map())
  await app.register(swagger, {
    decorator: 'unversioned',
    openapi: { openapi: '3.1.0' },
    transform: ({ schema, url }) => ({
      schema: url.startsWith('/api/')
        ? { hide: true }
        : withFailures(schema, [], (status) => failure(status)),
      url,
    }),
  })

  const numbers = versions.map(({ representation }) => representation.version)
  await app.register(async function openapi(scope) {
    await scope.register(unchanging)
    for (const version of numbers) {
      scope.get(`/openapi/v${version}.json`, (_request, reply) =>
        reply.type('application/json; charset=utf-8').send(app.documents.get(version)),
      )
    }
  })
  await app.register(page, { versions: numbers, publicUrl })
}

export default fp(docs, { name: 'docs', dependencies: ['access'] })
