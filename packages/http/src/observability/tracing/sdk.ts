/** Sets up OpenTelemetry's SDK for one app, without globals; loaded only if traces are sent. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Tracer } from '@opentelemetry/api'
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http'
import { detectResources, envDetector, resourceFromAttributes } from '@opentelemetry/resources'
import {
  AlwaysOnSampler,
  BatchSpanProcessor,
  ParentBasedSampler,
  type SpanExporter,
  TracerProvider,
} from '@opentelemetry/sdk-trace'
import { identity } from '@resource-api/database'
import type { FastifyBaseLogger } from 'fastify'

const EXPORT_TIMEOUT_MS = 5_000
const SHUTDOWN_TIMEOUT_MS = 2_000

export interface SdkOptions {
  /** The collector's URL, without `/v1/traces`. */
  endpoint: string
  release: string
  log: FastifyBaseLogger
}

/** Logs when exports begin to fail, and when they succeed again. */
function logExportFailures(exporter: SpanExporter, log: FastifyBaseLogger): SpanExporter {
  let isFailing = false
  return {
    export(spans, done) {
      exporter.export(spans, (result) => {
        const hasFailed = result.error !== undefined
        if (hasFailed && !isFailing) log.warn({ err: result.error }, 'traces cannot be sent and are dropped')
        if (!hasFailed && isFailing) log.info('traces are sent again')
        isFailing = hasFailed
        done(result)
      })
    },
    shutdown: () => exporter.shutdown(),
  }
}

/** Returns a tracer, and a function that sends its remaining spans and stops it. */
export function startSdk({ endpoint, release, log }: SdkOptions): { tracer: Tracer; close(): Promise<void> } {
  const url = `${endpoint.replace(/\/$/, '')}/v1/traces`
  const exporter = logExportFailures(new OTLPTraceExporter({ url, timeoutMillis: EXPORT_TIMEOUT_MS }), log)
  const service = resourceFromAttributes({ 'service.name': identity.tracing, 'service.version': release })
  const provider = new TracerProvider({
    // Adds OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES, which identify one of several services.
    resource: service.merge(detectResources({ detectors: [envDetector] })),
    sampler: new ParentBasedSampler({ root: new AlwaysOnSampler() }),
    spanProcessors: [new BatchSpanProcessor({ exporter })],
  })
  return {
    tracer: provider.getTracer(identity.tracing, release),
    async close() {
      const timeout = sleep(SHUTDOWN_TIMEOUT_MS, undefined, { ref: false })
      await Promise.race([provider.shutdown().catch(() => undefined), timeout])
    },
  }
}
