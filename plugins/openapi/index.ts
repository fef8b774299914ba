/** Serves an OpenAPI document per version with its request collections, the documentation page and the start page. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import helmet from '@fastify/helmet'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { identity } from '../../lib/identity.ts'
import type { ResourceDefinition } from '../collection/definition.ts'
import { entityTags } from '../http/preconditions.ts'
import { securityPolicy } from '../http/response-headers.ts'
import { getServerUrl } from '../http/server-url.ts'
import type { Version } from '../versioning/index.ts'
import { formatAccessTables } from './access-tables.ts'
import { createJsonAsset, serveAsset } from './assets.ts'
import { createSampleContext } from './code-samples.ts'
import { collectOperations } from './collect-operations.ts'
import { collectionWriters } from './collections.ts'
import discovery from './discovery.ts'
import { buildDocument, type DocumentSettings, selectOperations } from './document.ts'
import { getPageGuide } from './guide.ts'
import page from './page.ts'
import { toPageDocument } from './page-document.ts'
import { buildSamples } from './sample-requests.ts'

interface DocsOptions {
  versions: readonly Version[]
  /** The release of the service. */
  release: string
  publicUrl: string | undefined
  /** Where a forgotten password is reset, relative to the documentation page; undefined without mail. */
  resetUrl: string | undefined
  /** The groups of operations. */
  tags: readonly { name: string; description: string }[]
  /** Whether the service has tools for agents. */
  hasAgents: boolean
  /** The resources, whose rules the page shows. */
  definitions: readonly ResourceDefinition[]
  /** Returns the requests that the service sends, by name. */
  getWebhooks: DocumentSettings['getWebhooks']
  /** Whether the start fails if a document cannot be built; otherwise the first request for it does. */
  early: boolean
}

async function docs(
  app: FastifyInstance,
  { versions, early, publicUrl, resetUrl, definitions, hasAgents, ...settings }: DocsOptions,
) {
  const readOperations = collectOperations(app)

  const serveVersion = (scope: FastifyInstance, version: Version) => {
    const number = version.representation.version
    // Each step of a document has a turn of its own, so that many resources do not hold the event loop.
    const build = async () => {
      const server = getServerUrl(app, publicUrl)
      const document = await buildDocument(readOperations(), version, { ...settings, server })
      await nextTurn()
      return document
    }
    // Its result is not kept: the server's address is known when it listens.
    if (early) app.addHook('onReady', async () => void (await build()))
    serveAsset(scope, `/openapi/v${number}.json`, async () => createJsonAsset(await build()))
    serveAsset(scope, `/docs/v${number}.json`, async () => {
      const document = await build()
      const own = selectOperations(readOperations(), number)
      const guide = getPageGuide({
        ...createSampleContext(own, number, getServerUrl(app, publicUrl)),
        operations: own,
        about: version.representation.about,
        hasEvents: document.webhooks !== undefined,
        hasAgents,
        accessTables: formatAccessTables(definitions, app),
      })
      const adapted = await toPageDocument(document, guide)
      await nextTurn()
      return createJsonAsset(adapted)
    })
    const buildOwnSamples = () =>
      buildSamples(selectOperations(readOperations(), number), number, getServerUrl(app, publicUrl))
    for (const [format, write] of Object.entries(collectionWriters)) {
      const file = `v${number}.${format}.json`
      serveAsset(scope, `/openapi/${file}`, () => createJsonAsset(write(buildOwnSamples())), {
        headers: { 'Content-Disposition': `attachment; filename="${identity.name}-${file}"` },
      })
    }
  }

  const numbers = versions.map(({ representation }) => representation.version)
  await app.register(async (scope) => {
    await scope.register(helmet, securityPolicy)
    await scope.register(entityTags)
    for (const version of versions) serveVersion(scope, version)
    await scope.register(discovery, { versions: numbers, release: settings.release, publicUrl })
    await scope.register(page, { versions: numbers, publicUrl, resetUrl })
  })
}

export default fp(docs, { name: 'docs', dependencies: ['access', 'head-not-modified'] })
