/** Serves `POST /mcp`, by which agents use the operations of collections as tools (Model Context Protocol). */

import { authenticate } from '@resource-api/accounts'
import { addResourceMetadata } from '@resource-api/accounts/internal'
import { ApiError, apiError } from '@resource-api/api/errors'
import { contentType } from '@resource-api/api/requests'
import { getBuiltInName } from '@resource-api/database/application'
import { loadOptional } from '@resource-api/database/files'
import { isObject } from '@resource-api/database/values'
import type { Config } from '@resource-api/http/config'
import { getServerUrl } from '@resource-api/http/internal'
import { operation } from '@resource-api/resources'
import type { Handler } from '@resource-api/resources/internal'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { createToolList } from './tools.ts'

const MCP_PATH = '/mcp'
/** Bytes. A longer body of a caller whose limit is exceeded is not read. */
const MAX_REFUSED_LENGTH = 16_384

export type McpConfig = Pick<
  Config,
  'AUTH_ISSUER' | 'MCP' | 'MCP_EXCLUDE_TOOLS' | 'MCP_READ_ONLY' | 'PUBLIC_URL'
>

const isShort = ({ headers }: FastifyRequest) =>
  Number(headers['content-length'] ?? Number.NaN) <= MAX_REFUSED_LENGTH

async function mcp(app: FastifyInstance, config: McpConfig) {
  const { AUTH_ISSUER: issuer, MCP, PUBLIC_URL: publicUrl } = config
  if (!MCP) return
  // Loaded only if it is enabled.
  const { answer } = await loadOptional(
    () => import('./server.ts'),
    'MCP=true',
    import.meta.resolve('#package'),
  )
  let listTools: ReturnType<typeof createToolList> = async () => []
  // All routes are registered then.
  app.addHook('onReady', async () => {
    const events = app.resources.filter(({ name }) => name === getBuiltInName('events'))
    listTools = createToolList(app, app.readOperations(), [...app.ownResources, ...events], config)
  })
  /** The requests whose limit is exceeded: the response to a call says so, whose body must be read for that. */
  const refusals = new WeakMap<FastifyRequest, ApiError>()

  await app.register(async (scope) => {
    await scope.register(contentType)
    if (issuer !== undefined) addResourceMetadata(scope, MCP_PATH, { issuer, publicUrl })
    // A page of another site must not use a server that only its user can reach.
    scope.addHook('onRequest', async ({ headers: { origin }, routeOptions }) => {
      if (origin === undefined || routeOptions.url !== MCP_PATH) return
      const isListed = app.getCorsHeaders(origin)['Access-Control-Allow-Origin'] !== undefined
      if (isListed || origin === new URL(getServerUrl(app, publicUrl)).origin) return
      throw apiError('FORBIDDEN', { message: 'Requests of this origin are not allowed' })
    })
    await scope.register(authenticate)
    scope.addHook('onRequest', async (request, reply) => {
      const { actor } = request
      if (!actor) return
      try {
        await app.limits.countUser(request, actor)
        app.concurrency.acquire(request, reply, actor.userId, 1)
      } catch (error) {
        if (!(error instanceof ApiError) || !isShort(request)) throw error
        refusals.set(request, error)
      }
    })
    const handle: Handler = async (request, reply) => {
      const { actor, body } = request
      if (!actor) throw apiError('UNAUTHORIZED')
      const message = 'The body must be one JSON-RPC message, an object'
      if (!isObject(body)) throw apiError('INVALID_REQUEST', { message })
      const refusal = refusals.get(request)
      // The second part of connecting, which counts once.
      const isSecond =
        body.method === 'notifications/initialized' && body.id === undefined && isShort(request)
      if (isSecond && !refusal) await app.limits.uncountUser(request, actor)
      if (refusal && !isSecond && body.method !== 'tools/call') throw refusal
      return answer({ reply, body, tools: await listTools(actor), refusal })
    }
    scope.post(MCP_PATH, operation({ access: 'authenticated', handle, leavesSlot: true }))
  })
}

export default fp(mcp, { name: 'mcp', dependencies: ['access', 'cors', 'credentials', 'limits'] })
