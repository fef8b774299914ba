/** What monitoring reads: `/metrics`, on a port of its own, or behind a token; where neither is set, nothing is counted, or loaded. */
import { createHash, timingSafeEqual } from 'node:crypto'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import Negotiator from 'negotiator'
import type { Registry } from 'prom-client'
import { apiError } from '../../errors/index.ts'
import { createScrapeServer } from './scrape-server.ts'

export interface CountingOptions {
  /** Whether anybody will read it: what nobody reads is not counted. */
  wanted: boolean
  /** The version of the service. */
  release: string
}

interface MetricsOptions {
  /** A port of its own, 0 for a free one. */
  port: number | undefined
  host: string
  /** Opens `/metrics` on the main port. */
  token: string | undefined
}

declare module 'fastify' {
  interface FastifyInstance {
    /** Where everything is counted; undefined where nobody reads it. */
    metrics: Registry | undefined
    /** Opens the port of `/metrics`, where it has one of its own, and returns its address. */
    listenMetrics(): Promise<string | undefined>
  }
}

const digest = (text: string) => createHash('sha256').update(text).digest()

/** @returns a check that takes as long for a token that is nearly right as for any other */
function createCheck(token: string) {
  const expected = digest(token)
  return ({ headers }: FastifyRequest): boolean => {
    const sent = /^bearer +([^ ]+) *$/i.exec(headers.authorization ?? '')?.[1]
    return sent !== undefined && timingSafeEqual(digest(sent), expected)
  }
}

const unauthorized = () =>
  apiError('UNAUTHORIZED', {
    message: 'METRICS_TOKEN is required as a Bearer token',
    headers: { 'WWW-Authenticate': 'Bearer realm="metrics"' },
  })

/** Before whatever may refuse a request, so that refusals are counted. */
export const counting = fp(
  async (app: FastifyInstance, { wanted, release }: CountingOptions) => {
    if (!wanted) {
      app.decorate('metrics', undefined)
      return
    }
    const [{ createRegistry }, { watchRequests }, { watchEvents }] = await Promise.all([
      import('./registry.ts'),
      import('./requests.ts'),
      import('./channels.ts'),
    ])
    const registry = createRegistry(release)
    app.decorate('metrics', registry)
    watchRequests(app, registry)
    const unwatch = watchEvents(registry)
    app.addHook('onClose', async () => unwatch())
  },
  { name: 'counting', dependencies: ['errors'] },
)

async function metrics(app: FastifyInstance, { port, host, token }: MetricsOptions) {
  const registry = app.metrics
  if (!registry) {
    app.decorate('listenMetrics', async () => undefined)
    return
  }
  const [{ OPENMETRICS, PROMETHEUS, toOpenMetrics }, { watchState }] = await Promise.all([
    import('./registry.ts'),
    import('./state.ts'),
  ])
  watchState(app, registry)

  const send = async (request: FastifyRequest, reply: FastifyReply) => {
    const text = await registry.metrics()
    const type = new Negotiator(request.raw).mediaType([PROMETHEUS, OPENMETRICS])
    const isOpen = type === OPENMETRICS
    reply.header('Cache-Control', 'no-store').header('Vary', 'Accept')
    return reply.type(isOpen ? OPENMETRICS : PROMETHEUS).send(isOpen ? toOpenMetrics(text) : text)
  }
  const route = (scope: FastifyInstance, isAllowed: (request: FastifyRequest) => boolean) =>
    scope.route({
      method: 'GET',
      url: '/metrics',
      config: { access: 'public' },
      schema: { hide: true },
      onRequest: async (request) => {
        if (!isAllowed(request)) throw unauthorized()
      },
      handler: send,
    })

  if (token !== undefined) route(app, createCheck(token))
  const server =
    port === undefined ? undefined : await createScrapeServer(app, (scope) => route(scope, () => true))
  app.decorate('listenMetrics', async () => server?.listen({ host, port: port ?? 0 }))
  app.addHook('onClose', async () => {
    await server?.close()
  })
}

export default fp(metrics, {
  name: 'metrics',
  dependencies: ['counting', 'addressing', 'database', 'methods'],
})
