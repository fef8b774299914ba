/** What went wrong: the codes of failures and of single members. */
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

/** One thing that is wrong: a member of the body as sent (`items.0.quantity`), or a parameter. */
export interface Violation {
  field: string
  message: string
  code: FieldCode
}

/** Violations in one reply. Whatever looks for them stops here. */
export const MAX_VIOLATIONS = 50

/** Every failure that a client can see: its status and what is said when nothing closer is known. */
export const failures = {
  INVALID_REQUEST: { status: 400, message: 'The request cannot be read' },
  INVALID_CURSOR: { status: 400, message: 'The cursor is not one of this list' },
  UNAUTHORIZED: { status: 401, message: 'Authentication required' },
  FORBIDDEN: { status: 403, message: 'Not allowed' },
  RESOURCE_NOT_FOUND: { status: 404, message: 'There is no such resource' },
  METHOD_NOT_ALLOWED: { status: 405, message: 'The resource does not know this method' },
  NOT_ACCEPTABLE: { status: 406, message: 'None of the media types in Accept can be served' },
  REQUEST_TIMEOUT: { status: 408, message: 'The request took too long to arrive' },
  RESOURCE_CONFLICT: { status: 409, message: 'The state of the resource does not allow this' },
  VERSION_RETIRED: { status: 410, message: 'This version of the API has been retired' },
  PRECONDITION_FAILED: { status: 412, message: 'The resource has changed since it was read' },
  PAYLOAD_TOO_LARGE: { status: 413, message: 'The body is too large' },
  URI_TOO_LONG: { status: 414, message: 'The query string is too long' },
  UNSUPPORTED_MEDIA_TYPE: { status: 415, message: 'The media type of the body is not supported' },
  VALIDATION_ERROR: { status: 422, message: 'The request has invalid values' },
  IDEMPOTENCY_KEY_REUSED: { status: 422, message: 'The Idempotency-Key was used with another body' },
  PRECONDITION_REQUIRED: { status: 428, message: 'This request needs If-Match' },
  RATE_LIMIT_EXCEEDED: { status: 429, message: 'Too many requests' },
  HEADERS_TOO_LARGE: { status: 431, message: 'The header fields are too large' },
  INTERNAL_SERVER_ERROR: { status: 500, message: 'Something went wrong on our side' },
  NOT_IMPLEMENTED: { status: 501, message: 'The method is not one that HTTP defines' },
  BAD_GATEWAY: { status: 502, message: 'A server behind this one answered badly' },
  SERVICE_UNAVAILABLE: { status: 503, message: 'The service is not available right now' },
} as const satisfies Record<string, { status: number; message: string }>

export type FailureCode = keyof typeof failures
