/** Describes error responses for OpenAPI: the meaning, the codes, the headers and examples of each status. */
import { STATUS_CODES } from 'node:http'
import type { Violation } from '@resource-api/http'
import {
  type DocumentedResponse,
  type FailureCode,
  failures,
  type HeaderName,
  pickHeaders,
  type Representation,
} from '@resource-api/http/internal'
import { exampleId, OneOf } from '@resource-api/http/schemas'
import { Type } from '@sinclair/typebox'

/** The name of an example, its code, and its message if that is not the one of the code. */
type FailureExample = [name: string, code: FailureCode, message?: string, ...violations: Violation[]]

interface Status {
  /** For a status with several codes. Default: the meaning of its code. */
  description?: string
  headers?: readonly HeaderName[]
  /** At least one of each code that the status has. */
  examples: FailureExample[]
}

const failureStatuses: Record<number, Status> = {
  400: {
    description: 'The request is malformed, or a parameter is invalid',
    examples: [
      [
        'parameter',
        'VALIDATION_ERROR',
        'The query has invalid parameters',
        { field: 'limit', message: 'must be <= 100', code: 'OUT_OF_RANGE' },
      ],
      ['cursor', 'INVALID_CURSOR'],
      ['unreadable', 'INVALID_REQUEST', 'The body is not valid JSON; see line 3, column 12'],
    ],
  },
  401: {
    headers: ['WWW-Authenticate'],
    examples: [
      ['none', 'UNAUTHORIZED'],
      ['invalid', 'UNAUTHORIZED', 'Invalid or expired API key'],
    ],
  },
  403: {
    examples: [
      ['role', 'FORBIDDEN', 'The role member is not allowed to do this'],
      ['scope', 'FORBIDDEN', 'The credential lacks the scope users:write'],
      ['key', 'FORBIDDEN', 'This operation requires a Bearer token; API keys are not accepted'],
      ['row', 'FORBIDDEN', 'Access to this resource is not allowed'],
    ],
  },
  404: { examples: [['absent', 'RESOURCE_NOT_FOUND', `There is no user with the id ${exampleId}`]] },
  406: { examples: [['accept', 'NOT_ACCEPTABLE']] },
  408: { examples: [['slow', 'REQUEST_TIMEOUT']] },
  409: {
    headers: ['Retry-After'],
    examples: [
      [
        'taken',
        'RESOURCE_CONFLICT',
        'The email is taken',
        { field: 'email', message: 'is taken', code: 'ALREADY_EXISTS' },
      ],
      ['referred', 'RESOURCE_CONFLICT', 'Resources in user-profiles still refer to this one'],
      ['running', 'RESOURCE_CONFLICT', 'A request with this Idempotency-Key is still running'],
    ],
  },
  410: {
    description: 'This API version has been retired, or events after the cursor have been removed or lost',
    examples: [
      ['retired', 'VERSION_RETIRED'],
      ['expired', 'EVENTS_EXPIRED'],
    ],
  },
  412: { headers: ['ETag'], examples: [['changed', 'PRECONDITION_FAILED']] },
  413: { examples: [['large', 'PAYLOAD_TOO_LARGE']] },
  414: { examples: [['long', 'URI_TOO_LONG']] },
  415: {
    headers: ['Accept', 'Accept-Patch', 'Accept-Encoding'],
    examples: [['type', 'UNSUPPORTED_MEDIA_TYPE']],
  },
  422: {
    description:
      'Fields of the body are invalid (up to 50 are listed), or the Idempotency-Key was used with another body',
    examples: [
      [
        'fields',
        'VALIDATION_ERROR',
        'The body has invalid fields',
        { field: 'name', message: 'is required', code: 'REQUIRED' },
        { field: 'price', message: 'is not a known field', code: 'UNKNOWN_FIELD' },
      ],
      ['reused', 'IDEMPOTENCY_KEY_REUSED'],
    ],
  },
  428: { examples: [['unconditional', 'PRECONDITION_REQUIRED']] },
  429: {
    headers: ['Retry-After', 'X-RateLimit-Limit', 'X-RateLimit-Remaining', 'X-RateLimit-Reset'],
    examples: [['exceeded', 'RATE_LIMIT_EXCEEDED']],
  },
  431: { examples: [['large', 'HEADERS_TOO_LARGE']] },
  500: { examples: [['bug', 'INTERNAL_SERVER_ERROR']] },
  502: { examples: [['provider', 'BAD_GATEWAY', 'The identity provider returned an invalid response']] },
  503: { headers: ['Retry-After'], examples: [['busy', 'SERVICE_UNAVAILABLE']] },
}

/** Returns the name of an error response: `BadRequest`. */
export const getFailureName = (status: number) => `${STATUS_CODES[status]}`.replaceAll(/[^A-Za-z]/g, '')

/** Describes the error response of a status, in the envelope of a version. */
export function describeFailure(status: number, { schemas, error }: Representation): DocumentedResponse {
  const failure = failureStatuses[status]
  if (!failure) throw new Error(`The status ${status} is not described in failures.ts`)
  const name = getFailureName(status)
  const codes = [...new Set(failure.examples.map(([, code]) => code))]
  const description = failure.description ?? codes.map((code) => failures[code].meaning).join('; ')
  // An `ApiError` with one of the codes that the status has. It is required in the schema of all errors.
  const ownCodes = Type.Object({ code: Type.Optional(OneOf(codes, { description: 'A code for programs' })) })
  const reason = Type.Unsafe({ allOf: [schemas.error.properties.error, ownCodes], description: 'The error' })
  const title = `${name.replace(/Error$/, '')}Error`
  const examples = failure.examples.map(([key, code, message = failures[code].message, ...violations]) => {
    const value = error({ code, message, request_id: exampleId, violations })
    return [`${name}.${key}`, { value }]
  })
  return {
    description,
    headers: pickHeaders(...(failure.headers ?? [])),
    content: {
      'application/json': {
        schema: Type.Object({ error: reason }, { title, description }),
        examples: Object.fromEntries(examples),
      },
    },
  }
}
