/** Describes the service: an OpenAPI document per version, pages, and tools for agents. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { resetsTag, tokensTag, verificationsTag } from '@resource-api/accounts/internal'
import type { Operation } from '@resource-api/api/documents'
import type { Representation } from '@resource-api/api/versions'
import { getBuiltInName } from '@resource-api/database/application'
import { describeWebhooks } from '@resource-api/events/internal'
import { createAsset, createJsonAsset, serveAsset } from '@resource-api/http/assets'
import type { Config } from '@resource-api/http/config'
import { getServerUrl } from '@resource-api/http/internal'
import type { OwnRoutes } from '@resource-api/resources'
import { batchesTag, type Resource } from '@resource-api/resources/internal'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import mcp, { type McpConfig } from '../mcp/index.ts'
import { formatAccessTables } from './access-tables.ts'
import { collectOperations } from './collect-operations.ts'
import discovery from './discovery.ts'
import { buildDocument } from './document.ts'
import llms, { getGuidePath, readGuide } from './llms.ts'
import page from './page.ts'
import { toPageDocument } from './page-document.ts'

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
  const { ownResources, readOperations, resources } = app
  const { MCP, NODE_ENV, PUBLIC_URL, routes } = options
  const events = resources.find(({ name }) => name === getBuiltInName('events'))
  const eventNames = [getBuiltInName('events'), getBuiltInName('webhook-endpoints')]
  const isEvents = ({ name, parent }: Resource): boolean => eventNames.includes(parent?.to.name ?? name)
  const builtIn = resources.filter((resource) => !ownResources.includes(resource))
  const settings = {
    tagGroups: {
      Resources: [...ownResources, batchesTag, ...routes],
      Accounts: [
        tokensTag,
        ...builtIn.filter((resource) => !isEvents(resource)),
        ...(app.mail ? [resetsTag, verificationsTag] : []),
      ],
      ...(events && { 'Events and webhooks': builtIn.filter(isEvents) }),
    },
    hasAgents: MCP,
    getWebhooks: (representation: Representation) =>
      events ? describeWebhooks(events, app.events.resources, representation) : {},
  }

  for (const version of app.versions) {
    const number = version.representation.version
    // Each step of a document has a turn of its own, so that many resources do not hold the event loop.
    const build = async () => {
      const server = getServerUrl(app, PUBLIC_URL)
      // The access to an event is that to its resource.
      const listed = resources.filter((resource) => resource !== events)
      const accessTables = formatAccessTables(listed, app)
      const document = await buildDocument(readOperations(), version, { ...settings, server, accessTables })
      await nextTurn()
      return document
    }
    // Only a developer changes schemas. Few servers, and few tests, are asked for the document: it is built on request.
    // Its result is not kept: the server's address is known when it listens.
    if (NODE_ENV === 'development') app.addHook('onReady', async () => void (await build()))
    serveAsset(app, `/openapi/v${number}.json`, async () => createJsonAsset(await build()))
    serveAsset(app, getGuidePath(number), async () =>
      createAsset('text/markdown; charset=utf-8', readGuide(await build())),
    )
    serveAsset(app, `/docs/v${number}.json`, async () => {
      const adapted = await toPageDocument(await build(), number)
      await nextTurn()
      return createJsonAsset(adapted)
    })
  }
  await app.register(discovery, options)
  await app.register(llms, options)
  await app.register(page, options)
}
