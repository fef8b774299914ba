/** The OpenAPI documents, one for each version, written by the routes themselves; and the page that shows them. */
import type { FastifyInstance, FastifySchema } from 'fastify'
import fp from 'fastify-plugin'
import { once } from '../../lib/cached-promise.ts'
import type { Version } from '../versioning/index.ts'
import type { Json } from './components.ts'
import { createFinisher } from './finish.ts'
import { guideOf } from './guide.ts'
import page from './page.ts'
import { failure } from './replies.ts'
import unchanging, { sendTagged, withTag } from './static-cache.ts'
import { routesOf, securitySchemes, tell } from './swagger.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** The OpenAPI documents by version, as they are sent; to be asked once the app is ready. */
    documents: Map<number, () => Promise<string>>
    /** What stands outside every version, as @fastify/swagger tells it. */
    unversioned(): Promise<Json>
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
  /** Whether it is written when the app is ready: what cannot be told then stops the start. Else, when it is asked for. */
  early: boolean
}

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
  async (app: FastifyInstance, { version, release, publicUrl, tags, early }: DocumentOptions) => {
    const { representation, deprecated } = version
    const ended = deprecated ? [410] : []
    const routes = routesOf(app)

    const write = async (): Promise<Json> => {
      const finisher = createFinisher()
      const vendorType = `application/vnd.api+json;version=${representation.version}`
      const told = await tell(routes, (schema) =>
        withFailures(schema, ended, (status) => failure(status, representation)),
      )
      const own = finisher.paths(told, { vendorType, deprecated: deprecated !== undefined })
      const shared = finisher.paths(await app.unversioned(), { vendorType: undefined, deprecated: false })
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
    const text = once(async () => JSON.stringify(await write()))
    app.documents.set(representation.version, text)
    if (early) app.addHook('onReady', async () => void (await text()))
  },
  { name: 'document', dependencies: ['docs'] },
)

interface DocsOptions {
  versions: readonly Version[]
  publicUrl: string | undefined
}

async function docs(app: FastifyInstance, { versions, publicUrl }: DocsOptions) {
  app.decorate('documents', new Map())
  const routes = routesOf(app)
  const unversioned = once(() =>
    tell(
      routes.filter(({ url }) => !url.startsWith('/api/')),
      (schema) => withFailures(schema, [], (status) => failure(status)),
    ),
  )
  app.decorate('unversioned', unversioned)

  const numbers = versions.map(({ representation }) => representation.version)
  await app.register(async function openapi(scope) {
    await scope.register(unchanging)
    for (const version of numbers) {
      const tagged = once(async () => withTag((await app.documents.get(version)?.()) ?? ''))
      scope.get(`/openapi/v${version}.json`, async (_request, reply) =>
        sendTagged(reply, 'application/json; charset=utf-8', await tagged()),
      )
    }
  })
  await app.register(page, { versions: numbers, publicUrl })
}

export default fp(docs, { name: 'docs', dependencies: ['access'] })
