/** Counts each request and its duration once its response is sent or aborted. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { Counter, Gauge, Histogram, type Registry } from 'prom-client'
import { getLifetime } from '../../admission/request-lifetime.ts'
import { STREAM_TYPE } from '../../versioning/accept.ts'

/** From the duration of a read by id to the response timeout (10 s). */
const DURATION_BUCKETS_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]

const METHODS = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'])

/** Node's HTTP parser accepts about 30 methods. */
const toMethodLabel = (method: string) => (METHODS.has(method) ? method : '_OTHER')

const VERSIONED_ROUTE = /^\/api\/v(\d+)(\/.+)$/

/** Returns the version and the rest of a route's template, never of the path that the client sent. */
function toRouteLabels(url: string | undefined): { route: string; version: string } {
  if (url === undefined || url === '*') return { route: 'none', version: 'none' }
  const [, version = 'none', route = url] = VERSIONED_ROUTE.exec(url) ?? []
  return { route, version }
}

const isStream = (reply: FastifyReply) => String(reply.getHeader('content-type')).startsWith(STREAM_TYPE)

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
    const labels = { method: toMethodLabel(request.method), ...toRouteLabels(request.routeOptions.url) }
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
