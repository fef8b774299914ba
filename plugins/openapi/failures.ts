/** Describes error responses for OpenAPI: the meaning, the codes, the headers and examples of each status. */
import { STATUS_CODES } from 'node:http'
import { type TObject, type TSchema, Type } from '@sinclair/typebox'
import { type FailureCode, failures, type Violation } from '../../schemas/error.ts'
import { exampleId, OneOf } from '../../schemas/types.ts'
import type { Representation } from '../versioning/representation/types.ts'
import type { HeaderName } from './headers.ts'
import type { OperationResponse } from './operation.ts'

interface FailureExample {
  code: FailureCode
  message?: string
  violations?: readonly Violation[]
}

interface Status {
  description: string
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
    description: 'The credentials are missing or invalid',
    headers: ['WWW-Authenticate'],
    examples: {
      none: { code: 'UNAUTHORIZED' },
      invalid: { code: 'UNAUTHORIZED', message: 'Invalid or expired API key' },
    },
  },
  403: {
    description: 'The role, the scope or the access rules of the resource do not permit the request',
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
    description: 'The resource does not exist',
    examples: {
      absent: { code: 'RESOURCE_NOT_FOUND', message: `There is no product with the id ${exampleId}` },
    },
  },
  406: {
    description: 'No media type in `Accept` is supported',
    examples: { accept: { code: 'NOT_ACCEPTABLE' } },
  },
  408: {
    description: 'The request took longer than 10 seconds to arrive',
    examples: { slow: { code: 'REQUEST_TIMEOUT' } },
  },
  409: {
    description: 'The request conflicts with the state of this or another resource',
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
    description: 'The resource has changed, or another precondition failed; `ETag` is the current tag',
    headers: ['ETag'],
    examples: { changed: { code: 'PRECONDITION_FAILED' } },
  },
  413: {
    description: 'The body is larger than the limit: 1 MiB by default, 16 KiB without credentials',
    examples: { large: { code: 'PAYLOAD_TOO_LARGE' } },
  },
  414: {
    description: 'The query string is longer than 8 KiB',
    examples: { long: { code: 'URI_TOO_LONG' } },
  },
  415: {
    description: 'The media type, charset or encoding of the body is not supported',
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
  428: {
    description: '`If-Match` is required',
    examples: { unconditional: { code: 'PRECONDITION_REQUIRED' } },
  },
  429: {
    description: 'Too many requests, or too many failed ones; retry after `Retry-After`',
    headers: ['Retry-After', 'X-RateLimit-Limit', 'X-RateLimit-Remaining', 'X-RateLimit-Reset'],
    examples: { exceeded: { code: 'RATE_LIMIT_EXCEEDED' } },
  },
  431: {
    description: 'The header fields are larger than 16 KiB',
    examples: { large: { code: 'HEADERS_TOO_LARGE' } },
  },
  500: { description: 'Internal error', examples: { bug: { code: 'INTERNAL_SERVER_ERROR' } } },
  502: {
    description: 'The identity provider returned an invalid response',
    examples: {
      provider: { code: 'BAD_GATEWAY', message: 'The identity provider returned an invalid response' },
    },
  },
  503: {
    description: 'The service is temporarily unavailable',
    headers: ['Retry-After'],
    examples: { busy: { code: 'SERVICE_UNAVAILABLE' } },
  },
}

/** Returns the name of an error response: `BadRequest`. */
export const getFailureName = (status: number) => `${STATUS_CODES[status]}`.replaceAll(/[^A-Za-z]/g, '')

/** Returns the schema of the errors of one status: an `ApiError` with one of the codes that the status has. */
function buildErrorSchema(name: string, { description, examples }: Status, apiError: TObject): TSchema {
  const codes = [...new Set(Object.values(examples).map(({ code }) => code))]
  // Required in the schema of all errors.
  const ownCodes = Type.Object({ code: Type.Optional(OneOf(codes, { description: 'A code for programs' })) })
  const error = Type.Unsafe({ allOf: [apiError.properties.error, ownCodes], description: 'The error' })
  return Type.Object({ error }, { title: `${name.replace(/Error$/, '')}Error`, description })
}

/** Describes the error response of a status, in the envelope of a version. */
export function describeFailure(status: number, representation: Representation): OperationResponse {
  const failure = failureStatuses[status]
  if (!failure) throw new Error(`The status ${status} is not described in failures.ts`)
  const name = getFailureName(status)
  const examples = Object.entries(failure.examples).map(([key, { code, message, violations = [] }]) => {
    const text = message ?? failures[code].message
    const value = representation.error({ code, message: text, request_id: exampleId, violations })
    return { name, key, value }
  })
  return {
    description: failure.description,
    headers: failure.headers ?? [],
    content: { schema: buildErrorSchema(name, failure, representation.schemas.error), examples },
  }
}

/** The error statuses of every operation of a version. */
export const commonFailures = [400, 401, 403, 406, 408, 414, 429, 431, 500, 503]
