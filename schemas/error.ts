/** The error codes: of whole requests with their status and message, and of single fields and parameters. */
export const fieldCodes = [
  'REQUIRED',
  'INVALID_TYPE',
  'INVALID_FORMAT',
  'INVALID_VALUE',
  'TOO_SHORT',
  'TOO_LONG',
  'OUT_OF_RANGE',
  'UNKNOWN_FIELD',
  'UNKNOWN_PARAMETER',
  'CONFLICTING_PARAMETERS',
  'READ_ONLY',
  'ALREADY_EXISTS',
  'NOT_FOUND',
  'INVALID_TRANSITION',
  'INSUFFICIENT_STOCK',
] as const

export type FieldCode = (typeof fieldCodes)[number]

/** An invalid field of the body or an invalid query parameter. */
export interface Violation {
  /** The field's path in the body as sent (`items.0.quantity`), or the parameter's name. */
  field: string
  message: string
  code: FieldCode
}

/** The number of violations in a response, at which validation stops. */
export const MAX_VIOLATIONS = 50

/** Every error code that a client can receive, with its status and its default message. */
export const failures = {
  INVALID_REQUEST: { status: 400, message: 'The request is malformed' },
  INVALID_CURSOR: { status: 400, message: 'The cursor is invalid or belongs to another list' },
  UNAUTHORIZED: { status: 401, message: 'Authentication required' },
  FORBIDDEN: { status: 403, message: 'Permission denied' },
  RESOURCE_NOT_FOUND: { status: 404, message: 'Resource not found' },
  METHOD_NOT_ALLOWED: { status: 405, message: 'Method not allowed' },
  NOT_ACCEPTABLE: {
    status: 406,
    message:
      'Accept allows no available media type or version; use application/json or application/vnd.api+json',
  },
  REQUEST_TIMEOUT: { status: 408, message: 'The request took too long to arrive' },
  RESOURCE_CONFLICT: { status: 409, message: 'The request conflicts with the current state of the resource' },
  VERSION_RETIRED: {
    status: 410,
    message: 'This version of the API has been retired; the Link header names its successor',
  },
  EVENTS_EXPIRED: {
    status: 410,
    message:
      'Events after the cursor have been removed or lost; read the collections again and start a new cursor',
  },
  PRECONDITION_FAILED: { status: 412, message: 'The resource has changed since it was read' },
  PAYLOAD_TOO_LARGE: { status: 413, message: 'The body is too large' },
  URI_TOO_LONG: { status: 414, message: 'The URL is too long' },
  UNSUPPORTED_MEDIA_TYPE: { status: 415, message: 'Unsupported media type; use application/json' },
  VALIDATION_ERROR: { status: 422, message: 'The request has invalid values' },
  IDEMPOTENCY_KEY_REUSED: {
    status: 422,
    message: 'The Idempotency-Key was already used with a different body',
  },
  PRECONDITION_REQUIRED: { status: 428, message: 'This request requires an If-Match header' },
  RATE_LIMIT_EXCEEDED: { status: 429, message: 'Too many requests' },
  HEADERS_TOO_LARGE: { status: 431, message: 'The request headers are too large' },
  INTERNAL_SERVER_ERROR: { status: 500, message: 'Something went wrong on our side' },
  NOT_IMPLEMENTED: { status: 501, message: 'Unknown HTTP method' },
  BAD_GATEWAY: { status: 502, message: 'An upstream server sent an invalid response' },
  SERVICE_UNAVAILABLE: { status: 503, message: 'The service is temporarily unavailable' },
} as const satisfies Record<string, { status: number; message: string }>

export type FailureCode = keyof typeof failures
