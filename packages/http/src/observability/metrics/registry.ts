/** The metrics registry of one app, without globals, its two text formats, and the metrics of requests. */
import { getLifetime } from '@resource-api/api/requests'
import { STREAM_TYPES } from '@resource-api/api/versions'
import { identity } from '@resource-api/database'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'

/**
 * Default metrics that are removed: prom-client iterates over all handles of the process at each scrape, which is slow
 * with ten thousand sockets, and gives gauges the suffix `_total`, which is reserved for counters.
 */
const REMOVED_METRICS = ['handles', 'requests', 'resources'].flatMap((kind) => [
  `nodejs_active_${kind}`,
  `nodejs_active_${kind}_total`,
])

/** Creates a registry with the default metrics of Node.js: event loop, memory, garbage collection, CPU. */
export function createRegistry(release: string): Registry {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  for (const name of REMOVED_METRICS) registry.removeSingleMetric(name)
  new Gauge({
    name: `${identity.metrics}_info`,
    help: 'Always 1; the label is the version of the service.',
    labelNames: ['version'],
    aggregator: 'max',
    registers: [registry],
  }).set({ version: release }, 1)
  return registry
}

export const PROMETHEUS = Registry.PROMETHEUS_CONTENT_TYPE
export const OPENMETRICS = Registry.OPENMETRICS_CONTENT_TYPE

/**
 * Converts the Prometheus format to OpenMetrics: removes `_total` from the family names of counters and adds the end
 * marker. prom-client 15.1.3 is not used for this: it renames its counters permanently, which breaks the next scrape in
 * the Prometheus format.
 */
export function toOpenMetrics(text: string): string {
  const families = text.replace(
    /^# HELP (\w+)_total (.*)\n# TYPE \1_total counter$/gm,
    '# HELP $1 $2\n# TYPE $1 counter',
  )
  return `${families.replace(/\n{2,}/g, '\n')}# EOF\n`
}

/** From the duration of a read by id to the response timeout (10 s). */
const DURATION_BUCKETS_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]

/** Other methods share a label: Node's HTTP parser accepts about 30. */
const METHODS = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'])

const VERSIONED_ROUTE = /^\/api\/v(\d+)(\/.+)$/

/** Returns the version and the rest of a route's template, never of the path that the client sent. */
function toRouteLabels(url: string | undefined): { route: string; version: string } {
  if (url === undefined || url === '*') return { route: 'none', version: 'none' }
  const [, version = 'none', route = url] = VERSIONED_ROUTE.exec(url) ?? []
  return { route, version }
}

const isStream = (reply: FastifyReply) => {
  const type = String(reply.getHeader('content-type'))
  return Object.values(STREAM_TYPES).some((each) => type.startsWith(each))
}

/** Counts each request and its duration once its response is sent or aborted. */
export function countRequests(app: FastifyInstance, registry: Registry): void {
  const registers = [registry]
  const labelNames = ['method', 'route', 'version'] as const
  const total = new Counter({
    name: 'http_requests_total',
    help: 'Requests, by method, route, API version and status; status "aborted": the client disconnected before the end of the response.',
    labelNames: [...labelNames, 'status'],
    registers,
  })
  const duration = new Histogram({
    name: 'http_request_duration_seconds',
    help: 'Time from the header of a request to the last byte of its response.',
    labelNames,
    buckets: DURATION_BUCKETS_SECONDS,
    registers,
  })
  let inFlight = 0
  new Gauge({
    name: 'http_requests_in_flight',
    help: 'Requests in progress.',
    registers,
    collect() {
      this.set(inFlight)
    },
  })

  const count = (request: FastifyRequest, reply: FastifyReply, startedAt: number) => {
    inFlight -= 1
    const method = METHODS.has(request.method) ? request.method : '_OTHER'
    const labels = { method, ...toRouteLabels(request.routeOptions.url) }
    const status = reply.raw.writableFinished ? String(reply.statusCode) : 'aborted'
    // A stream lasts as long as its client wants.
    if (!isStream(reply)) duration.observe(labels, (performance.now() - startedAt) / 1000)
    total.inc({ ...labels, status })
  }
  app.addHook('onRequest', (request, reply, done) => {
    const startedAt = performance.now()
    inFlight += 1
    getLifetime(reply.raw).untilEnd(() => count(request, reply, startedAt))
    done()
  })
}
