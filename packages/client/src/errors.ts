/** The errors of calls: one class per status, all of them an `ApiError`. */
import type { ErrorCode, FieldError } from './types.ts'

/** What an error response says. */
interface ErrorDetails {
  /** The HTTP status; 0 if there was no response. */
  status: number
  /** A code for programs. */
  code: ErrorCode
  /** The value of `X-Request-Id`, for the logs of the server; null if there was no response. */
  requestId: string | null
  /** The rejected fields or parameters; empty if the error concerns none. */
  fields: readonly FieldError[]
  /** How long to wait before the next attempt, from `Retry-After`; null if the response has none. */
  retryAfterMs: number | null
}

/** The base class of all errors of a call, except the reason of an `AbortSignal`. */
export class ApiError extends Error implements ErrorDetails {
  override readonly name: string = 'ApiError'
  readonly status: number
  readonly code: ErrorCode
  readonly requestId: string | null
  readonly fields: readonly FieldError[]
  readonly retryAfterMs: number | null

  constructor(message: string, details: ErrorDetails, options?: ErrorOptions) {
    super(message, options)
    this.status = details.status
    this.code = details.code
    this.requestId = details.requestId
    this.fields = details.fields
    this.retryAfterMs = details.retryAfterMs
  }

  /** Of `client.batch`: what is wrong with its operations, by their index; in each, such as `body.name` or `path`. */
  get operations(): ReadonlyMap<number, readonly FieldError[]> {
    const byIndex = new Map<number, FieldError[]>()
    for (const each of this.fields) {
      const [, index, field = ''] = /^operations\.(\d+)(?:\.(.*))?$/.exec(each.field) ?? []
      if (index === undefined) continue
      byIndex.set(Number(index), [...(byIndex.get(Number(index)) ?? []), { ...each, field }])
    }
    return byIndex
  }
}

/** 400: the request or a query parameter is invalid. */
export class BadRequestError extends ApiError {
  override readonly name = 'BadRequestError'
}

/** 401: credentials are missing, invalid or expired. */
export class AuthenticationError extends ApiError {
  override readonly name = 'AuthenticationError'
}

/** 403: the caller may not do this. */
export class PermissionError extends ApiError {
  override readonly name = 'PermissionError'
}

/** 404: there is no such resource. */
export class NotFoundError extends ApiError {
  override readonly name = 'NotFoundError'
}

/** 409: the write contradicts the current state, for example a unique value. */
export class ConflictError extends ApiError {
  override readonly name = 'ConflictError'
}

/** 412: the resource has changed since the entity tag in `ifMatch` was read. */
export class PreconditionFailedError extends ApiError {
  override readonly name = 'PreconditionFailedError'
}

/** 422: fields of the body are invalid; `fields` lists them. */
export class ValidationError extends ApiError {
  override readonly name = 'ValidationError'
}

/** 428: the server requires `ifMatch`. */
export class PreconditionRequiredError extends ApiError {
  override readonly name = 'PreconditionRequiredError'
}

/** 429: a rate limit is exceeded, also after the retries. */
export class RateLimitError extends ApiError {
  override readonly name = 'RateLimitError'
}

/** 500 and above: the server failed or is overloaded, also after the retries. */
export class ServerError extends ApiError {
  override readonly name = 'ServerError'
}

const WITHOUT_RESPONSE = { status: 0, requestId: null, fields: [], retryAfterMs: null }

/** There was no response, also after the retries. Whether a write was done is unknown. */
export class NetworkError extends ApiError {
  override readonly name: string = 'NetworkError'

  constructor(message: string, options?: ErrorOptions & { code?: ErrorCode }) {
    super(message, { ...WITHOUT_RESPONSE, code: options?.code ?? 'NETWORK_ERROR' }, options)
  }
}

/** The deadline of the call passed before there was a response. Whether a write was done is unknown. */
export class TimeoutError extends NetworkError {
  override readonly name = 'TimeoutError'

  constructor(deadlineMs: number) {
    super(`No response within ${deadlineMs} ms`, { code: 'TIMEOUT' })
  }
}

const CLASSES: Record<number, typeof ApiError> = {
  400: BadRequestError,
  401: AuthenticationError,
  403: PermissionError,
  404: NotFoundError,
  409: ConflictError,
  412: PreconditionFailedError,
  422: ValidationError,
  428: PreconditionRequiredError,
  429: RateLimitError,
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null

/** Narrows to the shape that every error response of the server has; a proxy may send something else. */
const isErrorBody = (
  body: unknown,
): body is { error: { code: string; message: string; details?: FieldError[] } } =>
  isObject(body) &&
  isObject(body.error) &&
  typeof body.error.code === 'string' &&
  typeof body.error.message === 'string' &&
  (body.error.details === undefined || Array.isArray(body.error.details))

/** A date in the format that RFC 9110 prescribes. `Date.parse` also reads many other texts, for example "-5". */
const HTTP_DATE = /^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/

/**
 * Returns the milliseconds of a `Retry-After` field, which has seconds or an HTTP date.
 * @returns null if the response has no readable one
 */
export function readRetryAfterMs(headers: Headers): number | null {
  const value = headers.get('Retry-After')
  if (value === null) return null
  if (/^\d+$/.test(value)) return Number(value) * 1000
  const ms = HTTP_DATE.test(value) ? Date.parse(value) - Date.now() : Number.NaN
  return Number.isNaN(ms) ? null : Math.max(0, ms)
}

/** Returns the error of a response that is not from the API, for example a page of a proxy. */
export function createForeignResponseError(
  { status, headers }: Response,
  code: ErrorCode,
  message: string,
): ApiError {
  const requestId = headers.get('X-Request-Id')
  return new ApiError(message, { status, code, requestId, fields: [], retryAfterMs: null })
}

/** Returns the error that a response and its parsed body describe. */
export function toApiError(
  { status, headers }: Pick<Response, 'status' | 'headers'>,
  body: unknown,
): ApiError {
  const error = isErrorBody(body) ? body.error : undefined
  const ErrorClass = CLASSES[status] ?? (status >= 500 ? ServerError : ApiError)
  return new ErrorClass(error?.message ?? `The response has the status ${status}`, {
    status,
    code: error?.code ?? `HTTP_${status}`,
    requestId: headers.get('X-Request-Id'),
    fields: error?.details ?? [],
    retryAfterMs: readRetryAfterMs(headers),
  })
}
