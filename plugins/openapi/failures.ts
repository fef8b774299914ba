/** Describes error responses for OpenAPI: the meaning, the codes, the headers and examples of each status. */
import { STATUS_CODES } from 'node:http'
import { Type } from '@sinclair/typebox'
import { type FailureCode, failures, type Violation } from '../../schemas/error.ts'
import { exampleId, OneOf } from '../../schemas/types.ts'
import type { Representation } from '../versioning/representation/types.ts'
import { type HeaderName, pickHeaders } from './headers.ts'
import type { DocumentedResponse } from './operation.ts'

interface FailureExample {
  code: FailureCode
  message?: string
  violations?: readonly Violation[]
}

interface Status {
  /** For a status with several codes. Default: the meaning of its code. */
  description?: string
  headers?: readonly HeaderName[]
  /** Examples by name, at least one of each code that the status has. The default message is that of the code. */
  examples: Record<string, FailureExample>
}

const failureStatuses: Record<number, Status> = {
  400: {
    description: 'The request is malformed, or a parameter is invalid',
    examples: {
      parameter: {
        code: 'VALIDATION_ERROR',
        message: 'The query has invalid parameters',
        violations: [{ field: 'limit', message: 'must be <= 100', code: 'OUT_OF_RANGE' }],
      },
      cursor: { code: 'INVALID_CURSOR' },
      unreadable: {
        code: 'INVALID_REQUEST',
        message: 'The body is not valid JSON',
      },
    },
  },
  401: {
    headers: ['WWW-Authenticate'],
    examples: {
      none: { code: 'UNAUTHORIZED' },
      invalid: { code: 'UNAUTHORIZED', message: 'Invalid or expired API key' },
    },
  },
  403: {
    examples: {
      role: { code: 'FORBIDDEN', message: 'The role member is not allowed to do this' },
      scope: { code: 'FORBIDDEN', message: 'The credential lacks the scope products:write' },
      key: {
        code: 'FORBIDDEN',
        message: 'This operation requires a Bearer token; API keys are not accepted',
      },
      row: { code: 'FORBIDDEN', message: 'Access to this resource is not allowed' },
    },
  },
  404: {
    examples: {
      absent: { code: 'RESOURCE_NOT_FOUND', message: `There is no product with the id ${exampleId}` },
    },
  },
  406: { examples: { accept: { code: 'NOT_ACCEPTABLE' } } },
  408: { examples: { slow: { code: 'REQUEST_TIMEOUT' } } },
  409: {
    headers: ['Retry-After'],
    examples: {
      taken: {
        code: 'RESOURCE_CONFLICT',
        message: 'The sku is taken',
        violations: [{ field: 'sku', message: 'is taken', code: 'ALREADY_EXISTS' }],
      },
      referred: { code: 'RESOURCE_CONFLICT', message: 'Other resources still refer to this one' },
      running: { code: 'RESOURCE_CONFLICT', message: 'A request with this Idempotency-Key is still running' },
    },
  },
  410: {
    description: 'This API version has been retired, or events after the cursor have been removed or lost',
    examples: { retired: { code: 'VERSION_RETIRED' }, expired: { code: 'EVENTS_EXPIRED' } },
  },
  412: {
    headers: ['ETag'],
    examples: { changed: { code: 'PRECONDITION_FAILED' } },
  },
  413: { examples: { large: { code: 'PAYLOAD_TOO_LARGE' } } },
  414: { examples: { long: { code: 'URI_TOO_LONG' } } },
  415: {
    headers: ['Accept', 'Accept-Patch', 'Accept-Encoding'],
    examples: { type: { code: 'UNSUPPORTED_MEDIA_TYPE' } },
  },
  422: {
    description:
      'Fields of the body are invalid (up to 50 are listed), or the Idempotency-Key was used with another body',
    examples: {
      fields: {
        code: 'VALIDATION_ERROR',
        message: 'The body has invalid fields',
        violations: [
          { field: 'name', message: 'is required', code: 'REQUIRED' },
          { field: 'price', message: 'is not a known field', code: 'UNKNOWN_FIELD' },
        ],
      },
      reused: { code: 'IDEMPOTENCY_KEY_REUSED' },
    },
  },
  428: { examples: { unconditional: { code: 'PRECONDITION_REQUIRED' } } },
  429: {
    headers: ['Retry-After', 'X-RateLimit-Limit', 'X-RateLimit-Remaining', 'X-RateLimit-Reset'],
    examples: { exceeded: { code: 'RATE_LIMIT_EXCEEDED' } },
  },
  431: { examples: { large: { code: 'HEADERS_TOO_LARGE' } } },
  500: { examples: { bug: { code: 'INTERNAL_SERVER_ERROR' } } },
  502: {
    examples: {
      provider: { code: 'BAD_GATEWAY', message: 'The identity provider returned an invalid response' },
    },
  },
  503: {
    headers: ['Retry-After'],
    examples: { busy: { code: 'SERVICE_UNAVAILABLE' } },
  },
}

/** Returns the name of an error response: `BadRequest`. */
export const getFailureName = (status: number) => `${STATUS_CODES[status]}`.replaceAll(/[^A-Za-z]/g, '')

/** Describes the error response of a status, in the envelope of a version. */
export function describeFailure(status: number, { schemas, error }: Representation): DocumentedResponse {
  const failure = failureStatuses[status]
  if (!failure) throw new Error(`The status ${status} is not described in failures.ts`)
  const name = getFailureName(status)
  const shown = Object.entries(failure.examples)
  const codes = [...new Set(shown.map(([, { code }]) => code))]
  const description = failure.description ?? codes.map((code) => failures[code].meaning).join('; ')
  // An `ApiError` with one of the codes that the status has. It is required in the schema of all errors.
  const ownCodes = Type.Object({ code: Type.Optional(OneOf(codes, { description: 'A code for programs' })) })
  const reason = Type.Unsafe({ allOf: [schemas.error.properties.error, ownCodes], description: 'The error' })
  const title = `${name.replace(/Error$/, '')}Error`
  const examples = shown.map(([key, { code, message = failures[code].message, violations = [] }]) => {
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
