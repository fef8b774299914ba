/** Serves an OpenAPI document per version, generated from the routes, and the documentation page. */
import type { FastifyInstance, FastifySchema } from 'fastify'
import fp from 'fastify-plugin'
import { cachePromise } from '../../lib/cached-promise.ts'
import type { Version } from '../versioning/index.ts'
import type { Json } from './components.ts'
import { createPostProcessor } from './finish.ts'
import { getGuide } from './guide.ts'
import page from './page.ts'
import { describeFailure } from './replies.ts'
import staticCache, { addTag, sendTagged } from './static-cache.ts'
import { collectRoutes, generateDocument, securitySchemes } from './swagger.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** Functions that return a version's OpenAPI document as text; call them once the app is ready. */
    documents: Map<number, () => Promise<string>>
    /** Generates the document of the routes outside all versions. */
    generateUnversionedDocument(): Promise<Json>
  }
  interface FastifySchema {
    /** For the documents: the error statuses of the operation, which `plugins/errors` sends. */
    failures?: readonly number[]
  }
}

export interface DocumentOptions {
  version: Version
  release: string
  publicUrl: string | undefined
  /** The groups of operations. */
  tags: readonly { name: string; description: string }[]
  /** Whether to generate the document at the start, which then fails if a schema is invalid; otherwise on demand. */
  early: boolean
}

/** Adds the error responses of an operation to its schema; Fastify itself does not need them. */
const addFailures = (
  schema: FastifySchema | undefined,
  additional: readonly number[],
  describe: (status: number) => object,
): FastifySchema => ({
  ...schema,
  response: {
    ...Object(schema?.response),
    ...Object.fromEntries(
      [...(schema?.failures ?? []), ...additional].map((status) => [status, describe(status)]),
    ),
  },
})

const healthTag = {
  name: 'health',
  description: 'Liveness and readiness checks',
}

/** Generates the document of a version. Registered in its scope before its routes; includes the unversioned routes. */
export const document = fp(
  async (app: FastifyInstance, { version, release, publicUrl, tags, early }: DocumentOptions) => {
    const { representation, deprecated } = version
    const deprecatedStatuses = deprecated ? [410] : []
    const routes = collectRoutes(app)

    const build = async (): Promise<Json> => {
      const postProcessor = createPostProcessor()
      const vendorType = `application/vnd.api+json;version=${representation.version}`
      const generated = await generateDocument(routes, (schema) =>
        addFailures(schema, deprecatedStatuses, (status) => describeFailure(status, representation)),
      )
      const versioned = postProcessor.paths(generated, { vendorType, deprecated: deprecated !== undefined })
      const unversioned = postProcessor.paths(await app.generateUnversionedDocument(), {
        vendorType: undefined,
        deprecated: false,
      })
      return {
        openapi: '3.1.0',
        info: {
          title: 'resource-api',
          version: release,
          summary: `Version ${representation.version} of the API`,
          description: getGuide(representation.version, representation.about),
          license: { name: 'MIT', identifier: 'MIT' },
        },
        servers: [{ url: publicUrl ?? '/' }],
        tags: [...tags, healthTag].map(({ name, description }) => ({ name, description })),
        paths: { ...versioned, ...unversioned },
        components: { ...postProcessor.components(), securitySchemes },
      }
    }
    const getText = cachePromise(async () => JSON.stringify(await build()))
    app.documents.set(representation.version, getText)
    if (early) app.addHook('onReady', async () => void (await getText()))
  },
  { name: 'document', dependencies: ['docs'] },
)

interface DocsOptions {
  versions: readonly Version[]
  publicUrl: string | undefined
}

async function docs(app: FastifyInstance, { versions, publicUrl }: DocsOptions) {
  app.decorate('documents', new Map())
  const routes = collectRoutes(app)
  const generateUnversioned = cachePromise(() =>
    generateDocument(
      routes.filter(({ url }) => !url.startsWith('/api/')),
      (schema) => addFailures(schema, [], (status) => describeFailure(status)),
    ),
  )
  app.decorate('generateUnversionedDocument', generateUnversioned)

  const numbers = versions.map(({ representation }) => representation.version)
  await app.register(async function openapi(scope) {
    await scope.register(staticCache)
    for (const version of numbers) {
      const getTagged = cachePromise(async () => addTag((await app.documents.get(version)?.()) ?? ''))
      scope.get(`/openapi/v${version}.json`, async (_request, reply) =>
        sendTagged(reply, 'application/json; charset=utf-8', await getTagged()),
      )
    }
  })
  await app.register(page, { versions: numbers, publicUrl })
}

export default fp(docs, { name: 'docs', dependencies: ['access'] })
