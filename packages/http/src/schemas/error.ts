/** The error codes, each explained once: those of whole requests with status and message, and those of single fields. */
import { getApplication, type OwnViolation } from '@resource-api/database/application'

interface FieldDefinition {
  meaning: string
  /** What a client can do. An application says it in the meaning. */
  remedy?: string
}

const packageFields = {
  REQUIRED: { meaning: 'The field is missing', remedy: 'Add it' },
  INVALID_TYPE: { meaning: 'The value has another JSON type', remedy: 'Send the type in the message' },
  INVALID_FORMAT: {
    meaning:
      'The string does not have the format: a pattern, an email address, a date, no control characters',
    remedy: 'Correct the value',
  },
  INVALID_VALUE: {
    meaning: 'The value is not one of those allowed',
    remedy: 'Correct it as the message says',
  },
  TOO_SHORT: { meaning: 'The string or array is too short', remedy: 'Send more; the message has the limit' },
  TOO_LONG: { meaning: 'The string or array is too long', remedy: 'Send less; the message has the limit' },
  OUT_OF_RANGE: {
    meaning: 'The number or the time is too small or too large',
    remedy: 'Keep to the limit in the message',
  },
  UNKNOWN_FIELD: { meaning: 'There is no field of this name', remedy: 'Correct the name, or leave it out' },
  UNKNOWN_PARAMETER: {
    meaning: 'There is no parameter of this name',
    remedy: 'Correct the name, or leave it out',
  },
  CONFLICTING_PARAMETERS: {
    meaning: 'Parameters contradict each other, or one is repeated',
    remedy: 'Send one of them, once',
  },
  READ_ONLY: { meaning: 'The field cannot be set or changed', remedy: 'Leave it out' },
  ALREADY_EXISTS: {
    meaning:
      'Another resource has this value, which must be unique. With several fields: it has these values together',
    remedy: 'Send another value, or change that resource',
  },
  NOT_FOUND: {
    meaning: 'The resource that the field refers to does not exist, or cannot be used',
    remedy: 'Send the id of another one',
  },
  INVALID_TRANSITION: {
    meaning: 'The status cannot change in this way',
    remedy: 'Send a status that the message allows',
  },
  FORBIDDEN: {
    meaning: 'The access rules do not permit the value, or the operation of a batch',
    remedy: 'Leave it out, or use another credential',
  },
} as const satisfies Record<string, FieldDefinition>

export type FieldCode = keyof typeof packageFields | OwnViolation

const ownFields = Object.entries(getApplication().violations ?? {}).map(([code, meaning]) => [
  code,
  { meaning },
])

/** The codes of invalid fields and parameters: those of the packages and of the application. */
export const fieldFailures = { ...packageFields, ...Object.fromEntries(ownFields) } as Readonly<
  Record<FieldCode, FieldDefinition>
>

/** The keys of `fieldFailures`, which are the codes. */
export const fieldCodes = Object.keys(fieldFailures) as FieldCode[]

/** An invalid field of the body or an invalid query parameter. */
export interface Violation {
  /** The field's path in the body as sent (`items.0.quantity`), or the parameter's name. */
  field: string
  message: string
  code: FieldCode
}

/** The number of violations in a response, at which validation stops. */
export const MAX_VIOLATIONS = 50

export interface FailureDefinition {
  status: number
  /** All statuses, if the code has several. */
  statuses?: readonly number[]
  /** The message of a response, unless it has a more specific one. */
  message: string
  /** What a client may conclude, and what it can do: for the documents. */
  meaning: string
  remedy: string
}

/** Every error code that a client can receive, in the order of the statuses. */
export const failures = {
  INVALID_REQUEST: {
    status: 400,
    message: 'The request is malformed',
    meaning:
      'The body is not readable JSON, is empty or is not an object; or a header field is invalid; or there are two credentials',
    remedy: 'Correct the request',
  },
  INVALID_CURSOR: {
    status: 400,
    message: 'The cursor is invalid or belongs to another list',
    meaning: 'The cursor is invalid or belongs to another list',
    remedy: 'Start from the first page',
  },
  UNAUTHORIZED: {
    status: 401,
    message: 'Authentication required',
    meaning: 'There are no credentials, or they are invalid or expired; or the password is wrong',
    remedy: 'Refresh the token or sign in again',
  },
  FORBIDDEN: {
    status: 403,
    message: 'Permission denied',
    meaning: 'The role, the scope or the access rules of the resource do not permit the request',
    remedy: 'Use another credential; the message names a missing scope',
  },
  RESOURCE_NOT_FOUND: {
    status: 404,
    message: 'Resource not found',
    meaning:
      'There is no such version, collection or resource; with `HIDE_FORBIDDEN`, also a resource that the caller may not access',
    remedy: 'Correct the path; the message says what is wrong with it',
  },
  METHOD_NOT_ALLOWED: {
    status: 405,
    message: 'Method not allowed',
    meaning: 'The path does not support the method',
    remedy: 'Use a method of `Allow` in the response',
  },
  NOT_ACCEPTABLE: {
    status: 406,
    message:
      'Accept allows no available media type or version; use application/json or application/vnd.api+json',
    meaning: 'No media type or version of `Accept` is available',
    remedy: 'Correct `Accept`',
  },
  REQUEST_TIMEOUT: {
    status: 408,
    message: 'The request took too long to arrive',
    meaning: 'The request took longer than 10 seconds to arrive',
    remedy: 'Send it again',
  },
  RESOURCE_CONFLICT: {
    status: 409,
    message: 'The request conflicts with the current state of the resource',
    meaning:
      'The state of this or another resource does not permit the request; or a request with the same `Idempotency-Key`, or one that changes the same resource, is running',
    remedy: 'Correct the fields in `details`; if there is a `Retry-After`, send it again after that time',
  },
  VERSION_RETIRED: {
    status: 410,
    message: 'This version of the API has been retired; the Link header names its successor',
    meaning: 'The version has been retired',
    remedy: 'Use the version in `Link`',
  },
  EVENTS_EXPIRED: {
    status: 410,
    message:
      'Events after the cursor have been removed or lost; read the collections again and start a new cursor',
    meaning:
      'Events after the cursor have been removed after `EVENTS_RETENTION_DAYS`; or the event of the cursor is lost: an older backup was restored, or a standby without it was promoted',
    remedy:
      'Open a stream without a cursor, whose first `id` is the cursor of the present; read the collections again, then continue from that cursor',
  },
  PRECONDITION_FAILED: {
    status: 412,
    message: 'The resource has changed since it was read',
    meaning: 'The resource has changed, or another precondition failed; `ETag` is the current tag',
    remedy: 'Read the resource again and repeat the change with its `ETag`',
  },
  PAYLOAD_TOO_LARGE: {
    status: 413,
    message: 'The body is too large',
    meaning: 'The body is larger than the limit: 1 MiB by default, 16 KiB without credentials',
    remedy: 'Send a smaller body',
  },
  URI_TOO_LONG: {
    status: 414,
    message: 'The URL is too long',
    meaning: 'The query string is longer than 8 KiB',
    remedy: 'Send fewer or shorter parameters',
  },
  UNSUPPORTED_MEDIA_TYPE: {
    status: 415,
    message: 'Unsupported media type; use application/json',
    meaning: 'The media type, charset or encoding of the body is not supported',
    remedy: 'Use a media type of `Accept` in the response',
  },
  VALIDATION_ERROR: {
    status: 422,
    statuses: [400, 422],
    message: 'The request has invalid values',
    meaning: 'Query parameters (400) or fields of the body (422) are invalid',
    remedy: 'Correct those in `details`',
  },
  IDEMPOTENCY_KEY_REUSED: {
    status: 422,
    message: 'The Idempotency-Key was already used with a different body',
    meaning: 'The `Idempotency-Key` was used with another body',
    remedy: 'Use a new key for a new write',
  },
  PRECONDITION_REQUIRED: {
    status: 428,
    message: 'This request requires an If-Match header',
    meaning: '`If-Match` is required',
    remedy: 'Send the `ETag` of the resource as `If-Match`',
  },
  RATE_LIMIT_EXCEEDED: {
    status: 429,
    message: 'Too many requests',
    meaning: 'Too many requests, or too many failed ones',
    remedy: 'Wait for the number of seconds in `Retry-After`',
  },
  HEADERS_TOO_LARGE: {
    status: 431,
    message: 'The request headers are too large',
    meaning: 'The header fields are larger than 16 KiB',
    remedy: 'Send less',
  },
  INTERNAL_SERVER_ERROR: {
    status: 500,
    message: 'Something went wrong on our side',
    meaning: 'The service has a defect',
    remedy: 'Report the `request_id`',
  },
  NOT_IMPLEMENTED: {
    status: 501,
    message: 'Unknown HTTP method',
    meaning: 'HTTP does not define the method',
    remedy: 'Correct the method',
  },
  BAD_GATEWAY: {
    status: 502,
    message: 'An upstream server sent an invalid response',
    meaning: 'The identity provider sent an invalid response',
    remedy: 'Send the request again later',
  },
  SERVICE_UNAVAILABLE: {
    status: 503,
    message: 'The service is temporarily unavailable',
    meaning: 'The service or its database is overloaded or unavailable, or the request took too long',
    remedy:
      'Wait for the number of seconds in `Retry-After`. A write may have been done: use an `Idempotency-Key`',
  },
} as const satisfies Record<string, FailureDefinition>

export type FailureCode = keyof typeof failures

/** The keys of `failures`, which are the codes. */
export const failureCodes = Object.keys(failures) as FailureCode[]
