/**
 * OpenTelemetry's SDK, set up by hand and for one app; loaded only where traces are sent. Its 2.x line is the last that
 * runs on Node.js 20.
 */
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
import type { FastifyBaseLogger } from 'fastify'

/** Milliseconds for one attempt to send. */
const PATIENCE = 5_000
/** Milliseconds that a shutdown waits for what was not sent yet. */
const FAREWELL = 2_000

export interface SdkOptions {
  /** Of the collector, without `/v1/traces`. */
  endpoint: string
  release: string
  log: FastifyBaseLogger
}

/** Says once that the collector is away, and once that it is back. */
function tellingOf(exporter: SpanExporter, log: FastifyBaseLogger): SpanExporter {
  let failing = false
  return {
    export(spans, done) {
      exporter.export(spans, (result) => {
        const failed = result.error !== undefined
        if (failed && !failing) log.warn({ err: result.error }, 'traces cannot be sent and are dropped')
        if (!failed && failing) log.info('traces are sent again')
        failing = failed
        done(result)
      })
    },
    shutdown: () => exporter.shutdown(),
  }
}

/** A tracer, and what sends what it still has and ends it. */
export function startSdk({ endpoint, release, log }: SdkOptions): { tracer: Tracer; close(): Promise<void> } {
  const url = `${endpoint.replace(/\/$/, '')}/v1/traces`
  const exporter = tellingOf(new OTLPTraceExporter({ url, timeoutMillis: PATIENCE }), log)
  const own = resourceFromAttributes({ 'service.name': 'resource-api', 'service.version': release })
  const provider = new TracerProvider({
    // OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES, by which operators tell their services apart.
    resource: own.merge(detectResources({ detectors: [envDetector] })),
    sampler: new ParentBasedSampler({ root: new AlwaysOnSampler() }),
    spanProcessors: [new BatchSpanProcessor({ exporter })],
  })
  return {
    tracer: provider.getTracer('resource-api', release),
    async close() {
      let timer: NodeJS.Timeout | undefined
      const late = new Promise<void>((resolve) => {
        timer = setTimeout(resolve, FAREWELL)
      })
      await Promise.race([provider.shutdown().catch(() => undefined), late])
      clearTimeout(timer)
    },
  }
}
