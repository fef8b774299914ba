/** Counts each request and its duration once its response is sent or aborted. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { Counter, Gauge, Histogram, type Registry } from 'prom-client'
import { getLifetime } from '../../admission/request-lifetime.ts'
import { STREAM_TYPE } from '../../versioning/accept.ts'
import { toMethodLabel, toRouteLabels } from './labels.ts'

/** From the duration of a read by id to the response timeout (10 s). */
const DURATION_BUCKETS_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]

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
