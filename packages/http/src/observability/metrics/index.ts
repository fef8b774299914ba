/** Serves metrics at `/metrics`, on a separate port or with a token. Without either setting, nothing is counted or loaded. */
import { createHash, timingSafeEqual } from 'node:crypto'
import type {} from '@resource-api/api/access'
import { apiError, errors } from '@resource-api/api/errors'
import { methodNotAllowed } from '@resource-api/api/requests'
import { release } from '@resource-api/database'
import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import Negotiator from 'negotiator'
import type { Registry } from 'prom-client'
import type { Config } from '../../config/settings.ts'
import parserErrors, { createClientErrorHandler } from '../../http/parser-errors.ts'
import requestValidation from '../../http/request-validation.ts'
import responseHeaders from '../../http/response-headers.ts'
import { frameworkErrors } from '../../http/responses-without-hooks.ts'
import { getRequestId } from '../../lib/request-id.ts'
import { RequestLogController } from '../logging/requests.ts'
import type { AddMetric } from './state.ts'

/** A scrape is one short request. */
const SCRAPE_TIMEOUT_MS = 5_000

declare module 'fastify' {
  interface FastifyInstance {
    /** The registry of all metrics; undefined if they are not served. */
    metrics: Registry | undefined
    /** Adds a metric whose value is read at each scrape; undefined if metrics are not served. */
    addMetric: AddMetric | undefined
    /** Opens the separate port of `/metrics`, if there is one, and returns its address. */
    listenMetrics(): Promise<string | undefined>
  }
}

const hash = (text: string) => createHash('sha256').update(text).digest()

/** @throws ApiError 401 without the token, which is compared in constant time */
function checkToken({ headers }: FastifyRequest, token: string): void {
  const sent = /^bearer +([^ ]+) *$/i.exec(headers.authorization ?? '')?.[1]
  if (sent !== undefined && timingSafeEqual(hash(sent), hash(token))) return
  throw apiError('UNAUTHORIZED', {
    message: 'METRICS_TOKEN is required as a Bearer token',
    headers: { 'WWW-Authenticate': 'Bearer realm="metrics"' },
  })
}

/** Creates the HTTP server of the separate port, without authentication, with the API's error envelope. */
async function createScrapeServer({ addressing, log }: FastifyInstance): Promise<FastifyInstance> {
  const server: FastifyInstance = Fastify({
    requestTimeout: SCRAPE_TIMEOUT_MS,
    keepAliveTimeout: SCRAPE_TIMEOUT_MS,
    forceCloseConnections: true,
    http: { headersTimeout: SCRAPE_TIMEOUT_MS, requireHostHeader: false },
    loggerInstance: log,
    logController: new RequestLogController(),
    genReqId: getRequestId,
    requestIdHeader: false,
    clientErrorHandler: createClientErrorHandler(() => server),
    frameworkErrors,
  })
  server.decorate('addressing', addressing)
  await server.register(errors, {
    getErrorEnvelope: (request) => addressing.getAddress(request).representation.error,
  })
  for (const plugin of [responseHeaders, parserErrors, requestValidation, methodNotAllowed])
    await server.register(plugin)
  return server
}

/** Counts requests and events. Registered before the plugins that may reject a request, so that rejections are counted. */
export const requestMetrics = fp(
  async (app: FastifyInstance, config: Pick<Config, 'METRICS_PORT' | 'METRICS_TOKEN'>) => {
    app.decorate('metrics', undefined)
    app.decorate('addMetric', undefined)
    if (config.METRICS_PORT === undefined && config.METRICS_TOKEN === undefined) return
    const [{ createRegistry, countRequests }, { subscribeToChannels }, { createMetricAdder }] =
      await Promise.all([import('./registry.ts'), import('./channels.ts'), import('./state.ts')])
    app.metrics = createRegistry(release)
    app.addMetric = createMetricAdder(app.metrics)
    countRequests(app, app.metrics)
    const unsubscribe = subscribeToChannels(app.metrics)
    app.addHook('onClose', async () => unsubscribe())
  },
  { name: 'request-metrics', dependencies: ['errors'] },
)

async function metrics(
  app: FastifyInstance,
  config: Pick<Config, 'METRICS_HOST' | 'METRICS_PORT' | 'METRICS_TOKEN' | 'WORKERS'>,
) {
  const { METRICS_HOST: host, METRICS_PORT: port, METRICS_TOKEN: token } = config
  const registry = app.metrics
  const server = registry && port !== undefined ? await createScrapeServer(app) : undefined
  app.decorate('listenMetrics', async () => server?.listen({ host, port: port ?? 0 }))
  if (!registry) return
  const [{ OPENMETRICS, PROMETHEUS, toOpenMetrics }, { addStateMetrics }] = await Promise.all([
    import('./registry.ts'),
    import('./state.ts'),
  ])
  if (app.addMetric) addStateMetrics(app, app.addMetric)

  const read =
    config.WORKERS > 1
      ? (await import('./worker-metrics.ts')).shareMetrics(registry)
      : () => registry.metrics()
  const send = async (request: FastifyRequest, reply: FastifyReply) => {
    const text = await read()
    const isOpenMetrics = new Negotiator(request.raw).mediaType([PROMETHEUS, OPENMETRICS]) === OPENMETRICS
    return reply
      .headers({ 'Cache-Control': 'no-store', Vary: 'Accept' })
      .type(isOpenMetrics ? OPENMETRICS : PROMETHEUS)
      .send(isOpenMetrics ? toOpenMetrics(text) : text)
  }
  const route = { method: 'GET', url: '/metrics', config: { access: 'public' }, handler: send } as const
  if (token !== undefined) app.route({ ...route, onRequest: async (request) => checkToken(request, token) })
  if (!server) return
  server.route(route)
  server.answerOtherMethods(server)
  app.addHook('onClose', () => server.close())
}

export default fp(metrics, {
  name: 'metrics',
  dependencies: ['request-metrics', 'response-headers', 'database', 'method-not-allowed'],
})
