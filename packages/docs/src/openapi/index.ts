/** Describes the service: an OpenAPI document per version with its request collections, pages, and tools for agents. */

import { setImmediate as nextTurn } from 'node:timers/promises'
import { resetsTag, tokensTag, verificationsTag } from '@resource-api/accounts/internal'
import { identity } from '@resource-api/database'
import { getBuiltInName } from '@resource-api/database/application'
import { describeWebhooks } from '@resource-api/events/internal'
import type { Config } from '@resource-api/http/config'
import {
  createJsonAsset,
  getServerUrl,
  type Operation,
  type Representation,
  serveAsset,
} from '@resource-api/http/internal'
import type { OwnRoutes } from '@resource-api/resources'
import { batchesTag } from '@resource-api/resources/internal'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import mcp, { type McpConfig } from '../mcp/index.ts'
import { formatAccessTables } from './access-tables.ts'
import { createSampleContext } from './code-samples.ts'
import { collectOperations } from './collect-operations.ts'
import { collectionWriters } from './collections.ts'
import discovery from './discovery.ts'
import { buildDocument, selectOperations } from './document.ts'
import { getPageGuide } from './guide.ts'
import page from './page.ts'
import { toPageDocument } from './page-document.ts'
import { buildSamples } from './sample-requests.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** Returns the operations of the documents. */
    readOperations(): Operation[]
  }
}

/** Collects the operations of the routes that are registered later, for the documents and the tools. */
async function docs(app: FastifyInstance, config: McpConfig) {
  app.decorate('readOperations', collectOperations(app))
  await app.register(mcp, config)
}

export default fp(docs, { name: 'docs', dependencies: ['access', 'resources'] })

interface DocumentOptions extends Pick<Config, 'APP_URL' | 'MCP' | 'NODE_ENV' | 'PUBLIC_URL'> {
  /** The routes of one's own. */
  routes: readonly OwnRoutes[]
}

/** Serves the documents, the documentation page and the start page. The scope has @fastify/helmet and @fastify/etag. */
export async function documents(app: FastifyInstance, options: DocumentOptions) {
  const { readOperations, resources } = app
  const { MCP, NODE_ENV, PUBLIC_URL, routes } = options
  const events = resources.find(({ name }) => name === getBuiltInName('events'))
  const settings = {
    tags: [
      ...[...resources, batchesTag, tokensTag],
      ...(app.mail ? [resetsTag, verificationsTag] : []),
      ...routes,
    ],
    getWebhooks: (representation: Representation) =>
      events ? describeWebhooks(events, app.events.resources, representation) : {},
  }

  for (const version of app.versions) {
    const number = version.representation.version
    // Each step of a document has a turn of its own, so that many resources do not hold the event loop.
    const build = async () => {
      const server = getServerUrl(app, PUBLIC_URL)
      const document = await buildDocument(readOperations(), version, { ...settings, server })
      await nextTurn()
      return document
    }
    // Only a developer changes schemas. Few servers, and few tests, are asked for the document: it is built on request.
    // Its result is not kept: the server's address is known when it listens.
    if (NODE_ENV === 'development') app.addHook('onReady', async () => void (await build()))
    serveAsset(app, `/openapi/v${number}.json`, async () => createJsonAsset(await build()))
    serveAsset(app, `/docs/v${number}.json`, async () => {
      const document = await build()
      const own = selectOperations(readOperations(), number)
      const guide = getPageGuide({
        ...createSampleContext(own, number, getServerUrl(app, PUBLIC_URL)),
        operations: own,
        about: version.representation.about,
        hasEvents: document.webhooks !== undefined,
        hasAgents: MCP,
        // The access to an event is that to its resource.
        accessTables: formatAccessTables(
          resources.filter((resource) => resource !== events),
          app,
        ),
      })
      const adapted = await toPageDocument(document, guide)
      await nextTurn()
      return createJsonAsset(adapted)
    })
    const buildOwnSamples = () =>
      buildSamples(selectOperations(readOperations(), number), number, getServerUrl(app, PUBLIC_URL))
    for (const [format, write] of Object.entries(collectionWriters)) {
      const file = `v${number}.${format}.json`
      serveAsset(app, `/openapi/${file}`, () => createJsonAsset(write(buildOwnSamples())), {
        headers: { 'Content-Disposition': `attachment; filename="${identity.name}-${file}"` },
      })
    }
  }
  await app.register(discovery, options)
  await app.register(page, options)
}
