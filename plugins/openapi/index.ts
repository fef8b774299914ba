/** Serves an OpenAPI document per version with its request collections, the documentation page and the start page. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import helmet from '@fastify/helmet'
import type { FastifyInstance, RouteOptions } from 'fastify'
import fp from 'fastify-plugin'
import { identity } from '../../lib/identity.ts'
import { entityTags } from '../http/preconditions.ts'
import { securityPolicy } from '../http/response-headers.ts'
import type { Version } from '../versioning/index.ts'
import { createJsonAsset, serveAsset } from './assets.ts'
import { createSampleContext } from './code-samples.ts'
import { collectionWriters } from './collections.ts'
import discovery from './discovery.ts'
import { buildDocument, type DocumentSettings, selectOperations } from './document.ts'
import { getPageGuide } from './guide.ts'
import { type Operation, readOperation } from './operation.ts'
import page from './page.ts'
import { toPageDocument } from './page-document.ts'
import { buildSamples } from './sample-requests.ts'

interface DocsOptions {
  versions: readonly Version[]
  /** The release of the service. */
  release: string
  publicUrl: string | undefined
  /** The groups of operations. */
  tags: readonly { name: string; description: string }[]
  /** Returns the requests that the service sends, by name. */
  getWebhooks: DocumentSettings['getWebhooks']
  /** Whether the start fails if a document cannot be built; otherwise the first request for it does. */
  early: boolean
}

/** The address of a server with the default settings, for documents that are built before a server listens. */
const DEFAULT_URL = 'http://127.0.0.1:3000'

/** Addresses that stand for all interfaces; no client can connect to them everywhere. */
const WILDCARDS = new Set(['0.0.0.0', '::'])

/** Returns PUBLIC_URL if it is set, and otherwise the address that the server listens on. */
export function getServerUrl(
  app: Pick<FastifyInstance, 'addresses' | 'initialConfig'>,
  publicUrl: string | undefined,
): string {
  if (publicUrl !== undefined) return publicUrl
  // The last one is that of the main port, the others are further addresses of a host name.
  const bound = app.addresses().at(-1)
  // A text is the path of a Unix socket, which the server does not listen on.
  if (bound === undefined || typeof bound === 'string') return DEFAULT_URL
  const { address, family, port } = bound
  const literal = family === 'IPv6' ? `[${address}]` : address
  const host = WILDCARDS.has(address) ? 'localhost' : literal
  return `${app.initialConfig.https ? 'https' : 'http'}://${host}:${port}`
}

/**
 * Collects the routes that are registered later.
 * @returns a function that reads their operations, when later hooks have added to their schemas
 */
function collectOperations(app: FastifyInstance): () => Operation[] {
  const routes: RouteOptions[] = []
  let operations: Operation[] | undefined
  app.addHook('onRoute', (route) => void routes.push(route))
  return () => {
    operations ??= routes.flatMap(({ method, url, schema, config }) =>
      typeof method !== 'string' || method === 'HEAD' || !schema || schema.hide
        ? []
        : readOperation({ method, url }, schema, config?.access),
    )
    return operations
  }
}

async function docs(app: FastifyInstance, { versions, early, publicUrl, ...settings }: DocsOptions) {
  const readOperations = collectOperations(app)

  const serveVersion = (scope: FastifyInstance, version: Version) => {
    const number = version.representation.version
    // Each step of a document has a turn of its own: in one turn, those of 100 resources held the event loop for 130 ms.
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
    await scope.register(page, { versions: numbers, publicUrl })
  })
}

export default fp(docs, { name: 'docs', dependencies: ['access', 'head-not-modified'] })
