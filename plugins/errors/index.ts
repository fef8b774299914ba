/** Every failure, whatever raised it, into the one envelope. */
import type { IncomingMessage } from 'node:http'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { DatabaseUnavailable } from '../../drizzle/client/errors.ts'
import { type FailureCode, failures, MAX_VIOLATIONS, type Violation } from '../../schemas/error.ts'

interface ApiErrorOptions {
  /** What the client is told; the catalogue's words when absent. */
  message?: string
  /** In place of the catalogue's: VALIDATION_ERROR is 400 for a query and 422 for a body. */
  status?: number
  violations?: readonly Violation[]
  headers?: Record<string, string>
  /** Seconds. */
  retryAfter?: number
  /** What is logged, and never told. */
  cause?: unknown
}

/** A failure that a client may see: a code of the catalogue with what is known of it. */
export class ApiError extends Error {
  readonly code: FailureCode
  readonly status: number
  readonly violations: readonly Violation[]
  readonly headers: Record<string, string>

  constructor(code: FailureCode, options: ApiErrorOptions = {}) {
    super(options.message ?? failures[code].message, { cause: options.cause })
    this.name = 'ApiError'
    this.code = code
    this.status = options.status ?? failures[code].status
    this.violations = options.violations ?? []
    this.headers = {
      ...options.headers,
      ...(options.retryAfter === undefined ? {} : { 'Retry-After': String(options.retryAfter) }),
    }
  }
}

export const apiError = (code: FailureCode, options?: ApiErrorOptions) => new ApiError(code, options)

/** Characters of a path in a violation: a client may send a name of any length, and reads it cut. */
const MAX_FIELD_LENGTH = 256

/** All that is wrong with a body (422). */
export const invalidBody = (violations: readonly Violation[]) =>
  apiError('VALIDATION_ERROR', { message: 'The body has invalid members', violations })

/** All that is wrong with a query string (400). */
export const invalidQuery = (violations: readonly Violation[]) =>
  apiError('VALIDATION_ERROR', { status: 400, message: 'The query has invalid parameters', violations })

/** The same failure with its members named as they stood in the body: `email` as `data.attributes.email`. */
export function withPrefix(error: unknown, prefix: string): unknown {
  if (prefix === '' || !(error instanceof ApiError) || error.violations.length === 0) return error
  const { message, status, headers, cause } = error
  const violations = error.violations.map((each) => ({ ...each, field: `${prefix}${each.field}` }))
  return new ApiError(error.code, { message, status, headers, cause, violations })
}

/** What Fastify itself refuses, by its code. */
const ofFastify: Record<string, FailureCode> = {
  FST_ERR_CTP_INVALID_MEDIA_TYPE: 'UNSUPPORTED_MEDIA_TYPE',
  FST_ERR_CTP_INVALID_TYPE: 'UNSUPPORTED_MEDIA_TYPE',
  FST_ERR_CTP_BODY_TOO_LARGE: 'PAYLOAD_TOO_LARGE',
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: 'INVALID_REQUEST',
  FST_ERR_CTP_EMPTY_JSON_BODY: 'INVALID_REQUEST',
  FST_ERR_CTP_INVALID_JSON_BODY: 'INVALID_REQUEST',
  FST_ERR_BAD_URL: 'INVALID_REQUEST',
  FST_ERR_NOT_FOUND: 'RESOURCE_NOT_FOUND',
}

const codeOf = (error: unknown) =>
  error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : ''

/** Anything that was thrown, as what the client is told. What is not known is a 500, with nothing of it told. */
function toApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error
  if (error instanceof DatabaseUnavailable) {
    return apiError('SERVICE_UNAVAILABLE', { retryAfter: error.retryAfter, cause: error })
  }
  const known = ofFastify[codeOf(error)]
  return known ? apiError(known, { cause: error }) : apiError('INTERNAL_SERVER_ERROR', { cause: error })
}

const cutField = (violation: Violation): Violation =>
  violation.field.length <= MAX_FIELD_LENGTH
    ? violation
    : { ...violation, field: `${violation.field.slice(0, MAX_FIELD_LENGTH).toWellFormed()}...` }

/** What an error reply says, before a version of the API puts it into its envelope. */
interface Failure {
  code: string
  message: string
  request_id: string
  violations: readonly Violation[]
}

/** Makes the JSON value of an error reply; each version of the API has its own. */
export type ErrorEnvelope = (failure: Failure) => unknown

/** Returns the text of an error reply. */
export const writeError = (envelope: ErrorEnvelope, error: ApiError, requestId: string) =>
  JSON.stringify(
    envelope({
      code: error.code,
      message: error.message,
      request_id: requestId,
      violations: error.violations.slice(0, MAX_VIOLATIONS).map(cutField),
    }),
  )

const OF_SUCCESS = ['ETag', 'Last-Modified', 'Location']

/** Logs an error and sends its reply. */
export function sendError(error: unknown, request: FastifyRequest, reply: FastifyReply) {
  // A client that hangs up in the middle of its body reads no answer, but has found no bug of ours either.
  const isHangUp = codeOf(error) === 'ECONNRESET' && !request.raw.complete
  const failure = isHangUp ? apiError('INVALID_REQUEST', { cause: error }) : toApiError(error)
  // A method that HTTP does not define is a fault of the client, though its status is 501.
  const isOurs = failure.status >= 500 && failure.code !== 'NOT_IMPLEMENTED'
  if (isOurs) request.log.error({ err: failure.cause ?? failure }, failure.message)
  else request.log.debug({ code: failure.code, cause: failure.cause }, failure.message)
  // What a handler said of a representation before it failed.
  for (const name of OF_SUCCESS) reply.removeHeader(name)
  return reply
    .code(failure.status)
    .headers(failure.headers)
    .header('Cache-Control', 'no-store')
    .type('application/json; charset=utf-8')
    .send(writeError(request.server.getErrorEnvelope(request.raw), failure, request.id))
}

interface ErrorsOptions {
  /** Returns the envelope of the version that a request addresses. */
  getErrorEnvelope: (request: IncomingMessage) => ErrorEnvelope
}

declare module 'fastify' {
  interface FastifyInstance extends ErrorsOptions {}
}

async function errors(app: FastifyInstance, { getErrorEnvelope }: ErrorsOptions) {
  app.decorate('getErrorEnvelope', getErrorEnvelope)
  app.setErrorHandler(sendError)
  app.setNotFoundHandler((request, reply) => sendError(apiError('RESOURCE_NOT_FOUND'), request, reply))
  app.addHook('onRequest', (request, reply, done) => {
    reply.header('x-request-id', request.id)
    done()
  })
}

export default fp(errors, { name: 'errors' })
