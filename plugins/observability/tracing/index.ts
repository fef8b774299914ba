/** Traces: a span for each request and each statement in it, sent to a collector; where none is named, nothing is loaded. */
import { AsyncLocalStorage } from 'node:async_hooks'
import type { Context, Span } from '@opentelemetry/api'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import type { Database } from '../../../drizzle/client/index.ts'
import { censorText } from '../logging/redact.ts'
import { safeUrl } from '../logging/requests.ts'
import type { SdkOptions } from './sdk.ts'

/** What is asked every few seconds, and of no interest. */
const UNTRACED = new Set(['/livez', '/readyz', '/metrics'])

/** Attributes by OpenTelemetry's stable conventions for HTTP servers; no query, no header, no address of a person. */
const attributesOf = (request: FastifyRequest) => ({
  'http.request.method': request.method,
  'url.scheme': request.protocol,
  'url.path': censorText(safeUrl(request.originalUrl).path),
  'network.protocol.version': request.raw.httpVersion,
  'resource_api.request_id': request.id,
  ...(request.is404 ? {} : { 'http.route': request.routeOptions.url }),
})

/**
 * @returns undefined where no collector is named
 */
export async function openTracing({
  endpoint,
  ...options
}: Omit<SdkOptions, 'endpoint'> & { endpoint: string | undefined }) {
  if (endpoint === undefined) return undefined
  const [{ ROOT_CONTEXT, SpanKind, SpanStatusCode, defaultTextMapGetter, trace }, core, sdk, own] =
    await Promise.all([
      import('@opentelemetry/api'),
      import('@opentelemetry/core'),
      import('./sdk.ts'),
      import('./database.ts'),
    ])
  const { tracer, close } = sdk.startSdk({ endpoint, ...options })
  const propagator = new core.W3CTraceContextPropagator()
  /** The span in which whatever runs here runs. */
  const current = new AsyncLocalStorage<Context>()

  const end = (span: Span, reply: FastifyReply) => {
    const { writableFinished } = reply.raw
    if (reply.raw.headersSent) span.setAttribute('http.response.status_code', reply.statusCode)
    if (reply.statusCode >= 500) span.setStatus({ code: SpanStatusCode.ERROR })
    if (!writableFinished) span.setAttribute('error.type', 'aborted')
    else if (reply.statusCode >= 500) span.setAttribute('error.type', String(reply.statusCode))
    span.end()
  }

  return {
    close,
    /** Begins a request's span, which ends with its reply, and returns where it stands. */
    begin(request: FastifyRequest, reply: FastifyReply): Context {
      const parent = propagator.extract(ROOT_CONTEXT, request.headers, defaultTextMapGetter)
      const { url } = request.routeOptions
      const name = request.is404 || url === undefined ? request.method : `${request.method} ${url}`
      const span = tracer.startSpan(
        name,
        { kind: SpanKind.SERVER, attributes: attributesOf(request) },
        parent,
      )
      reply.raw.once('close', () => end(span, reply))
      const log = request.log.child({ trace_id: span.spanContext().traceId })
      request.log = log
      reply.log = log
      return trace.setSpan(parent, span)
    },
    enter: (context: Context, run: () => void) => current.run(context, run),
    watch: (database: Database): Database =>
      own.watchDatabase(database, async (name, spanOptions, work) => {
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

interface TracingOptions {
  tracer: Awaited<ReturnType<typeof openTracing>>
}

async function tracing(app: FastifyInstance, { tracer }: TracingOptions) {
  if (!tracer) return
  const contexts = new WeakMap<FastifyRequest, Context>()

  app.addHook('onRequest', (request, reply, done) => {
    if (UNTRACED.has(request.routeOptions.url ?? '')) return done()
    const context = tracer.begin(request, reply)
    contexts.set(request, context)
    tracer.enter(context, done)
  })
  // The body came by events of the socket, and a turn that was waited for by the end of somebody else's: neither knows
  // of this request.
  app.addHook('preHandler', (request, _reply, done) => {
    const context = contexts.get(request)
    if (context) tracer.enter(context, done)
    else done()
  })
  app.addHook('onClose', () => tracer.close())
}

export default fp(tracing, { name: 'tracing', dependencies: ['errors'] })
