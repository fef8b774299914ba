/** What is counted of every request, when its connection is done with it. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { Counter, Gauge, Histogram, type Registry } from 'prom-client'
import { methodLabel, routeLabels } from './labels.ts'

/** From what a read by id takes to where an answer is given up (10 s). */
const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]

export function watchRequests(app: FastifyInstance, registry: Registry): void {
  const registers = [registry]
  const labelNames = ['method', 'route', 'version'] as const
  const total = new Counter({
    name: 'http_requests_total',
    help: 'Requests answered, by method, route, API version and status; status "aborted": the client left before.',
    labelNames: [...labelNames, 'status'],
    registers,
  })
  const duration = new Histogram({
    name: 'http_request_duration_seconds',
    help: "From a request's head to the last byte of its answer.",
    labelNames,
    buckets: SECONDS,
    registers,
  })
  let running = 0
  new Gauge({
    name: 'http_requests_in_flight',
    help: 'Requests that are being answered.',
    registers,
    collect() {
      this.set(running)
    },
  })

  /** Templates are few: what is said of one is worked out once. */
  const known = new Map<string | undefined, ReturnType<typeof routeLabels>>()
  const labelsOf = (request: FastifyRequest) => {
    const { url } = request.routeOptions
    const labels = known.get(url) ?? routeLabels(url)
    known.set(url, labels)
    return { method: methodLabel(request.method), ...labels }
  }
  const count = (request: FastifyRequest, reply: FastifyReply, since: number) => {
    running -= 1
    const labels = labelsOf(request)
    const status = reply.raw.writableFinished ? String(reply.statusCode) : 'aborted'
    duration.observe(labels, (performance.now() - since) / 1000)
    total.inc({ ...labels, status })
  }
  app.addHook('onRequest', (request, reply, done) => {
    const since = performance.now()
    running += 1
    // The one event that comes in any case, also where the client hangs up.
    reply.raw.once('close', () => count(request, reply, since))
    done()
  })
}
