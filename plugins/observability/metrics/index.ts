/** Serves metrics at `/metrics`, on a separate port or with a token. Without either setting, nothing is counted or loaded. */
import { createHash, timingSafeEqual } from 'node:crypto'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import Negotiator from 'negotiator'
import type { Registry } from 'prom-client'
import { apiError } from '../../errors/index.ts'
import { createScrapeServer } from './scrape-server.ts'

export interface RequestMetricsOptions {
  /** Whether `/metrics` is served; if not, nothing is counted. */
  isEnabled: boolean
  /** The version of the service. */
  release: string
}

interface MetricsOptions {
  /** The separate port; 0 for any free port. */
  port: number | undefined
  host: string
  /** The Bearer token for `/metrics` on the main port. */
  token: string | undefined
}

declare module 'fastify' {
  interface FastifyInstance {
    /** The registry of all metrics; undefined if they are not served. */
    metrics: Registry | undefined
    /** Opens the separate port of `/metrics`, if there is one, and returns its address. */
    listenMetrics(): Promise<string | undefined>
  }
}

const hash = (text: string) => createHash('sha256').update(text).digest()

/** @returns a token check in constant time */
function createTokenCheck(token: string) {
  const expected = hash(token)
  return ({ headers }: FastifyRequest): boolean => {
    const sent = /^bearer +([^ ]+) *$/i.exec(headers.authorization ?? '')?.[1]
    return sent !== undefined && timingSafeEqual(hash(sent), expected)
  }
}

const createUnauthorizedError = () =>
  apiError('UNAUTHORIZED', {
    message: 'METRICS_TOKEN is required as a Bearer token',
    headers: { 'WWW-Authenticate': 'Bearer realm="metrics"' },
  })

/** Counts requests and events. Registered before the plugins that may reject a request, so that rejections are counted. */
export const requestMetrics = fp(
  async (app: FastifyInstance, { isEnabled, release }: RequestMetricsOptions) => {
    if (!isEnabled) {
      app.decorate('metrics', undefined)
      return
    }
    const [{ createRegistry }, { countRequests }, { subscribeToChannels }] = await Promise.all([
      import('./registry.ts'),
      import('./requests.ts'),
      import('./channels.ts'),
    ])
    const registry = createRegistry(release)
    app.decorate('metrics', registry)
    countRequests(app, registry)
    const unsubscribe = subscribeToChannels(registry)
    app.addHook('onClose', async () => unsubscribe())
  },
  { name: 'request-metrics', dependencies: ['errors'] },
)

async function metrics(app: FastifyInstance, { port, host, token }: MetricsOptions) {
  const registry = app.metrics
  if (!registry) {
    app.decorate('listenMetrics', async () => undefined)
    return
  }
  const [{ OPENMETRICS, PROMETHEUS, toOpenMetrics }, { addStateMetrics }] = await Promise.all([
    import('./registry.ts'),
    import('./state.ts'),
  ])
  addStateMetrics(app, registry)

  const send = async (request: FastifyRequest, reply: FastifyReply) => {
    const text = await registry.metrics()
    const type = new Negotiator(request.raw).mediaType([PROMETHEUS, OPENMETRICS])
    const isOpenMetrics = type === OPENMETRICS
    reply.header('Cache-Control', 'no-store').header('Vary', 'Accept')
    return reply
      .type(isOpenMetrics ? OPENMETRICS : PROMETHEUS)
      .send(isOpenMetrics ? toOpenMetrics(text) : text)
  }
  const addRoute = (scope: FastifyInstance, isAllowed: (request: FastifyRequest) => boolean) =>
    scope.route({
      method: 'GET',
      url: '/metrics',
      config: { access: 'public' },
      onRequest: async (request) => {
        if (!isAllowed(request)) throw createUnauthorizedError()
      },
      handler: send,
    })

  if (token !== undefined) addRoute(app, createTokenCheck(token))
  const server =
    port === undefined ? undefined : await createScrapeServer(app, (scope) => addRoute(scope, () => true))
  app.decorate('listenMetrics', async () => server?.listen({ host, port: port ?? 0 }))
  app.addHook('onClose', async () => {
    await server?.close()
  })
}

export default fp(metrics, {
  name: 'metrics',
  dependencies: ['request-metrics', 'response-headers', 'database', 'method-not-allowed'],
})
