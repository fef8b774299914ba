/** What every request passes before its version is known, in this order. Each of these plugins may end the request. */
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import type { Config } from '../config/settings.ts'
import errors from '../errors/index.ts'
import { requestMetrics } from '../observability/metrics/index.ts'
import statementLog from '../observability/statement-log.ts'
import tracing from '../observability/tracing/index.ts'
import shutdown from '../operations/shutdown.ts'
import validation from '../validation/index.ts'
import cors from './cors.ts'
import discardedBodies from './discarded-bodies.ts'
import methodNotAllowed from './method-not-allowed.ts'
import parserErrors from './parser-errors.ts'
import headNotModified from './preconditions.ts'
import requestValidation from './request-validation.ts'
import responseHeaders from './response-headers.ts'
import timeouts, { type TimeoutOptions } from './timeouts.ts'

interface HttpOptions
  extends Pick<Config, 'CORS_ORIGINS' | 'INSECURE_HTTP' | 'METRICS_PORT' | 'METRICS_TOKEN' | 'NODE_ENV'>,
    Pick<Config, 'LOG_SQL' | 'OTEL_EXPORTER_OTLP_ENDPOINT' | 'PUBLIC_URL'>,
    Pick<Config, 'SHUTDOWN_DELAY' | 'TRUST_PROXY'> {
  timeouts?: TimeoutOptions
}

async function http(app: FastifyInstance, options: HttpOptions) {
  await app.register(errors, {
    getErrorEnvelope: (request) => app.addressing.getAddress(request).representation.error,
    PUBLIC_URL: options.PUBLIC_URL,
  })
  await app.register(validation, options)
  await app.register(tracing, options)
  await app.register(statementLog, options)
  await app.register(requestMetrics, options)
  await app.register(responseHeaders, options)
  await app.register(cors, options)
  await app.register(parserErrors)
  await app.register(discardedBodies)
  await app.register(methodNotAllowed)
  await app.register(requestValidation)
  await app.register(headNotModified)
  await app.register(timeouts, options.timeouts ?? {})
  await app.register(shutdown, options)
}

export default fp(http, { name: 'http' })
