/** Serves an OpenAPI document per version, built from the routes, and the documentation page. */
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { cachePromise } from '../../lib/cached-promise.ts'
import type { Version } from '../versioning/index.ts'
import { buildDocument, type DocumentedRoute, type DocumentSettings } from './document.ts'
import page from './page.ts'
import staticCache, { addTag, sendTagged } from './static-cache.ts'

interface DocsOptions extends DocumentSettings {
  versions: readonly Version[]
  /** Whether to build the documents at the start, which then fails if a schema is invalid; otherwise on demand. */
  early: boolean
}

/** Collects the operations of the routes that are registered later. */
function collectRoutes(app: FastifyInstance): DocumentedRoute[] {
  const routes: DocumentedRoute[] = []
  app.addHook('onRoute', ({ method, url, config }) => {
    if (typeof method !== 'string' || method === 'HEAD' || !config?.operation) return
    routes.push({ method, url, operation: config.operation })
  })
  return routes
}

async function docs(app: FastifyInstance, { versions, early, ...settings }: DocsOptions) {
  const routes = collectRoutes(app)
  await app.register(async (scope) => {
    await scope.register(staticCache)
    for (const version of versions) {
      const getDocument = cachePromise(async () =>
        addTag(JSON.stringify(buildDocument(routes, version, settings))),
      )
      if (early) app.addHook('onReady', async () => void (await getDocument()))
      const url = `/openapi/v${version.representation.version}.json`
      scope.get(url, { config: { access: 'public' } }, async (_request, reply) =>
        sendTagged(reply, 'application/json; charset=utf-8', await getDocument()),
      )
    }
  })
  const numbers = versions.map(({ representation }) => representation.version)
  await app.register(page, { versions: numbers, publicUrl: settings.publicUrl })
}

export default fp(docs, { name: 'docs', dependencies: ['access'] })
