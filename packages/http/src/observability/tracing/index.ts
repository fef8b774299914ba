/** Sends a span per request and per statement to a collector. Without a configured collector nothing is loaded. */
import { AsyncLocalStorage } from 'node:async_hooks'
import type { Context, Span } from '@opentelemetry/api'
import { getLifetime } from '@resource-api/api/requests'
import { type Database, identity, release } from '@resource-api/database'
import { loadOptional } from '@resource-api/database/files'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import type { Config } from '../../config/settings.ts'
import { censorText } from '../logging/redact.ts'
import { getLoggableUrl, PROBES } from '../logging/requests.ts'
import type { SdkOptions } from './sdk.ts'

/** Attributes by OpenTelemetry's stable conventions for HTTP servers, without query, headers and client address. */
const getAttributes = (request: FastifyRequest) => ({
  'http.request.method': request.method,
  'url.scheme': request.protocol,
  'url.path': censorText(getLoggableUrl(request.originalUrl).path),
  'network.protocol.version': request.raw.httpVersion,
  [`${identity.metrics}.request_id`]: request.id,
  ...(request.is404 ? {} : { 'http.route': request.routeOptions.url }),
})

async function openTracer(options: SdkOptions) {
  const [{ ROOT_CONTEXT, SpanKind, SpanStatusCode, defaultTextMapGetter, trace }, core, sdk, traced] =
    await loadOptional(
      () =>
        Promise.all([
          import('@opentelemetry/api'),
          import('@opentelemetry/core'),
          import('./sdk.ts'),
          import('./database.ts'),
        ]),
      'OTEL_EXPORTER_OTLP_ENDPOINT',
      import.meta.resolve('#package'),
    )
  const { tracer, close } = sdk.startSdk(options)
  const propagator = new core.W3CTraceContextPropagator()
  /** The context with the current span. */
  const current = new AsyncLocalStorage<Context>()

  const endSpan = (span: Span, reply: FastifyReply) => {
    const { raw, statusCode } = reply
    const hasFailed = statusCode >= 500
    if (raw.headersSent) span.setAttribute('http.response.status_code', statusCode)
    if (hasFailed) span.setStatus({ code: SpanStatusCode.ERROR })
    if (hasFailed || !raw.writableFinished)
      span.setAttribute('error.type', raw.writableFinished ? String(statusCode) : 'aborted')
    span.end()
  }

  return {
    close,
    /** Starts the span of a request, which ends with its response, and returns the span's context. */
    begin(request: FastifyRequest, reply: FastifyReply): Context {
      const parent = propagator.extract(ROOT_CONTEXT, request.headers, defaultTextMapGetter)
      const { url } = request.routeOptions
      const name = request.is404 || url === undefined ? request.method : `${request.method} ${url}`
      const span = tracer.startSpan(
        name,
        { kind: SpanKind.SERVER, attributes: getAttributes(request) },
        parent,
      )
      getLifetime(reply.raw).untilEnd(() => endSpan(span, reply))
      const log = request.log.child({ trace_id: span.spanContext().traceId })
      request.log = log
      reply.log = log
      return trace.setSpan(parent, span)
    },
    enter: (context: Context, run: () => void) => current.run(context, run),
    traceDatabase: (database: Database): Database =>
      traced.traceDatabase(database, async (name, spanOptions, work) => {
        const parent = current.getStore()
        if (parent === undefined) return work()
        const span = tracer.startSpan(name, spanOptions, parent)
        try {
          return await current.run(trace.setSpan(parent, span), () => work(span))
        } finally {
          span.end()
        }
      }),
  }
}

declare module 'fastify' {
  interface FastifyInstance {
    /** Undefined if no collector is configured. */
    tracer: Awaited<ReturnType<typeof openTracer>> | undefined
  }
}

async function tracing(
  app: FastifyInstance,
  { OTEL_EXPORTER_OTLP_ENDPOINT: endpoint }: Pick<Config, 'OTEL_EXPORTER_OTLP_ENDPOINT'>,
) {
  app.decorate('tracer', undefined)
  if (endpoint === undefined) return
  const tracer = await openTracer({ endpoint, release, log: app.log })
  app.tracer = tracer
  const contexts = new WeakMap<FastifyRequest, Context>()

  app.addHook('onRequest', (request, reply, done) => {
    if (PROBES.has(request.routeOptions.url)) return done()
    const context = tracer.begin(request, reply)
    contexts.set(request, context)
    tracer.enter(context, done)
  })
  // Entered again, because the async context is lost if the body arrives in socket events, or if the request waited in
  // the admission queue and the end of another request resumed it.
  app.addHook('preHandler', (request, _reply, done) => {
    const context = contexts.get(request)
    if (context) tracer.enter(context, done)
    else done()
  })
  app.addHook('onClose', () => tracer.close())
}

export default fp(tracing, { name: 'tracing', dependencies: ['errors'] })
