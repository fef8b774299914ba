/** Error handling: turns every error into a response with a code, a message and the violations, and logs it. */
import { channel } from 'node:diagnostics_channel'
import type { IncomingMessage } from 'node:http'
import { getErrorCode } from '@resource-api/database'
import {
  DatabaseUnavailable,
  getContention,
  isLockTimeout,
  SqlError,
  StaleReadError,
} from '@resource-api/database/errors'
import { getChannelName } from '@resource-api/database/values'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { addLinks } from '../links/links.ts'
import { type FailureCode, failures, MAX_VIOLATIONS, type Violation } from './codes.ts'

interface ApiErrorOptions {
  /** The message for the client. Default: the code's message in `failures`. */
  message?: string
  /** Overrides the code's status: VALIDATION_ERROR is 400 for a query and 422 for a body. */
  status?: number
  violations?: readonly Violation[]
  headers?: Record<string, string>
  /** Seconds. */
  retryAfter?: number
  /** The original error, which is logged and never sent. */
  cause?: unknown
  /**
   * What other requests hold, so that this one is refused although nothing has failed: the label of the metric. It is logged
   * as a warning.
   */
  contention?: string | undefined
}

/** `{ reason }`: a request was refused with 503 because of others. */
const contended = channel(getChannelName('contention:refused'))

/** An error whose code, message, violations and headers are sent to the client. */
export class ApiError extends Error {
  readonly code: FailureCode
  readonly status: number
  readonly violations: readonly Violation[]
  readonly headers: Record<string, string>
  readonly contention: string | undefined

  constructor(code: FailureCode, options: ApiErrorOptions = {}) {
    const { message = failures[code].message, status = failures[code].status, retryAfter } = options
    super(message, { cause: options.cause })
    this.name = 'ApiError'
    this.code = code
    this.status = status
    this.violations = options.violations ?? []
    this.headers = { ...options.headers }
    this.contention = options.contention
    if (retryAfter !== undefined) this.headers['Retry-After'] = String(retryAfter)
  }
}

export const apiError = (code: FailureCode, options?: ApiErrorOptions) => new ApiError(code, options)

/** Characters of a violation's path. Names in a body may have any length, so longer paths are truncated. */
const MAX_FIELD_LENGTH = 256

/** Returns the error for a body with violations (422). */
export const invalidBody = (violations: readonly Violation[]) =>
  apiError('VALIDATION_ERROR', { message: 'The body has invalid fields', violations })

/** Returns the error for a query string with violations (400). */
export const invalidQuery = (violations: readonly Violation[]) =>
  apiError('VALIDATION_ERROR', { status: 400, message: 'The query has invalid parameters', violations })

/** Returns an API error with the message and the violations that `rewrite` returns, and any other error unchanged. */
export function rewriteError(
  error: unknown,
  rewrite: (error: ApiError) => { message?: string; violations: readonly Violation[] },
): unknown {
  if (!(error instanceof ApiError)) return error
  const { code, message, status, headers, cause, contention } = error
  return new ApiError(code, { message, status, headers, cause, contention, ...rewrite(error) })
}

/** Returns an error whose violations name the fields by their paths in the body. */
export const prefixFields = (error: unknown, prefix: string): unknown =>
  rewriteError(error, ({ violations }) => ({
    violations: violations.map((each) => ({ ...each, field: `${prefix}${each.field}` })),
  }))

/** Fastify's own errors that are faults of the client. */
const codesByFastifyError: Record<string, FailureCode> = {
  FST_ERR_CTP_INVALID_MEDIA_TYPE: 'UNSUPPORTED_MEDIA_TYPE',
  FST_ERR_CTP_BODY_TOO_LARGE: 'PAYLOAD_TOO_LARGE',
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: 'INVALID_REQUEST',
  FST_ERR_CTP_EMPTY_JSON_BODY: 'INVALID_REQUEST',
  FST_ERR_CTP_INVALID_JSON_BODY: 'INVALID_REQUEST',
  FST_ERR_BAD_URL: 'INVALID_REQUEST',
  FST_ERR_NOT_FOUND: 'RESOURCE_NOT_FOUND',
}

/** Converts a thrown value. An unknown error becomes a 500 without details. */
export function toApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error
  if (error instanceof StaleReadError) {
    const message = 'Another request has changed what this one has read; send it again'
    return apiError('RESOURCE_CONFLICT', { message, retryAfter: 1, cause: error })
  }
  if (error instanceof DatabaseUnavailable) {
    const { retryAfter } = error
    const message = 'Another request has locked a row that this one needs; try again'
    return apiError('SERVICE_UNAVAILABLE', {
      ...(isLockTimeout(error) && { message }),
      retryAfter,
      contention: getContention(error),
      cause: error,
    })
  }
  const code = codesByFastifyError[getErrorCode(error) ?? '']
  return code ? apiError(code, { cause: error }) : apiError('INTERNAL_SERVER_ERROR', { cause: error })
}

const truncateField = (violation: Violation): Violation => {
  const { field } = violation
  if (field.length <= MAX_FIELD_LENGTH) return violation
  return { ...violation, field: `${field.slice(0, MAX_FIELD_LENGTH).toWellFormed()}...` }
}

/** Returns the JSON value of an error response. Each version of the API has its own. */
export type ErrorEnvelope = (failure: {
  code: string
  message: string
  request_id: string
  violations: readonly Violation[]
}) => unknown

/** Returns the text of an error response. */
export const writeError = (envelope: ErrorEnvelope, error: ApiError, requestId: string) =>
  JSON.stringify(
    envelope({
      code: error.code,
      message: error.message,
      request_id: requestId,
      violations: error.violations.slice(0, MAX_VIOLATIONS).map(truncateField),
    }),
  )

/** Headers of a successful response, which a handler may have set before it failed. */
const REPRESENTATION_HEADERS = [
  'Content-Disposition',
  'Content-Encoding',
  'ETag',
  'Last-Modified',
  'Location',
]

/** The class of SQLSTATEs of violated constraints, which clients cause. */
const CONSTRAINT_VIOLATION = '23'

/** Logs the error of a request. */
export function logFailure({ log }: Pick<FastifyRequest, 'log'>, failure: ApiError): void {
  const { cause, code, contention, message, status } = failure
  // An unknown HTTP method is an error of the client, although its status is 501.
  const isServerError = status >= 500 && code !== 'NOT_IMPLEMENTED'
  if (contention !== undefined) {
    contended.publish({ reason: contention })
    log.warn({ reason: contention, cause }, message)
  } else if (isServerError) log.error({ err: cause ?? failure }, message)
  // A right or a trigger of the database, or a value that no schema refuses: the reason is for the operator alone.
  else if (cause instanceof SqlError && !cause.code.startsWith(CONSTRAINT_VIOLATION))
    log.warn({ code, cause }, message)
  else log.debug({ code, cause }, message)
}

/**
 * Logs an error, and sets the status and the headers of its response.
 * @returns the error for the client
 */
export function prepareFailure(error: unknown, request: FastifyRequest, reply: FastifyReply): ApiError {
  // The client closed the connection while sending its body, which must not be logged as a server error.
  const isAborted = getErrorCode(error) === 'ECONNRESET' && !request.raw.complete
  const failure = isAborted ? apiError('INVALID_REQUEST', { cause: error }) : toApiError(error)
  logFailure(request, failure)
  for (const name of REPRESENTATION_HEADERS) reply.removeHeader(name)
  reply.code(failure.status).headers(failure.headers).header('Cache-Control', 'no-store')
  return failure
}

/** Logs an error and sends its response. */
export function sendError(error: unknown, request: FastifyRequest, reply: FastifyReply) {
  const failure = prepareFailure(error, request, reply)
  const help = request.server.getHelpLink(failure.code)
  if (help !== undefined) addLinks(reply, help)
  return reply
    .type('application/json; charset=utf-8')
    .send(writeError(request.server.getErrorEnvelope(request.raw), failure, request.id))
}

interface EnvelopeReader {
  /** Returns the envelope of the version that a request addresses. */
  getErrorEnvelope: (request: IncomingMessage) => ErrorEnvelope
}

declare module 'fastify' {
  interface FastifyInstance extends EnvelopeReader {
    /** Returns the link to the text about a code, or undefined if the app has no documentation page. */
    getHelpLink: (code: FailureCode) => string | undefined
  }
}

interface ErrorsOptions extends EnvelopeReader {
  PUBLIC_URL?: string | undefined
}

async function errors(app: FastifyInstance, { getErrorEnvelope, PUBLIC_URL = '' }: ErrorsOptions) {
  // Read by the first error, when all routes are registered. The router has paths without the slash at their end.
  let hasPage: boolean | undefined
  app.decorate('getErrorEnvelope', getErrorEnvelope)
  app.decorate('getHelpLink', (code) => {
    hasPage ??= app.hasRoute({ method: 'GET', url: '/docs' })
    return hasPage ? `<${PUBLIC_URL}/docs/#${code}>; rel="help"` : undefined
  })
  app.setErrorHandler(sendError)
  app.setNotFoundHandler((request, reply) => sendError(apiError('RESOURCE_NOT_FOUND'), request, reply))
}

export default fp(errors, { name: 'errors' })
