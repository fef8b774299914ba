/** Replies as OpenAPI tells them: what each status means, which headers stand beside it, how it looks. */
import type { TSchema } from '@sinclair/typebox'
import { UnversionedError } from '../../schemas/envelope.ts'
import { type FailureCode, failures, type Violation } from '../../schemas/error.ts'
import { exampleId } from '../../schemas/types.ts'
import { securityHeaders } from '../http/security-headers.ts'
import type { Representation } from '../versioning/representation/types.ts'
import type { HeaderName } from './headers.ts'

/** What every reply carries: the keys of the constant ones stand in `headers.ts`. */
const everywhere = [
  'X-Request-Id',
  'Cache-Control',
  ...(Object.keys(securityHeaders) as (keyof typeof securityHeaders)[]),
]
const inVersions: HeaderName[] = [
  'API-Version',
  'Vary',
  'X-RateLimit-Limit',
  'X-RateLimit-Remaining',
  'X-RateLimit-Reset',
]

/** Marks a header for `finish.ts` as one that may be absent. */
export const OPTIONAL = 'x-optional'

export interface Example {
  summary: string
  value: unknown
}

export interface Reply {
  description: string
  headers?: readonly HeaderName[]
  schema?: TSchema
  examples?: Record<string, Example>
  /** Headers that some replies of this status lack. */
  optional?: readonly HeaderName[]
  /** Outside every version: neither `API-Version` nor negotiation. */
  unversioned?: boolean
}

/** A reply in the form that @fastify/swagger takes; `finish.ts` fills in what the headers are. */
export function reply({
  description,
  headers = [],
  optional = [],
  schema,
  examples,
  unversioned = false,
}: Reply) {
  const isOptional = (name: string) => optional.some((each) => each === name)
  const names = [...everywhere, ...(unversioned ? [] : inVersions), ...headers]
  const media = { schema, ...(examples ? { examples } : {}) }
  return {
    description,
    headers: Object.fromEntries(
      names.map((name) => [name, { type: 'string', [OPTIONAL]: isOptional(name) }]),
    ),
    ...(schema ? { content: { 'application/json': media } } : { type: 'null' }),
  }
}

interface Failed {
  code: FailureCode
  status?: number
  message?: string
  violations?: readonly Violation[]
}

interface Status {
  description: string
  headers?: readonly HeaderName[]
  /**
   * Whether the HTTP parser, or Fastify for a path that it cannot decode, may refuse a request so: these may know neither
   * its version nor its address.
   */
  byParser?: boolean
  /** How it looks, by name; the catalogue's own message when absent. */
  examples: Record<string, Failed>
}

const statuses: Record<number, Status> = {
  400: {
    description: 'The request cannot be read, or a parameter is invalid',
    byParser: true,
    examples: {
      parameter: {
        code: 'VALIDATION_ERROR',
        message: 'The query has invalid parameters',
        violations: [{ field: 'limit', message: 'must be <= 100', code: 'OUT_OF_RANGE' }],
      },
      cursor: { code: 'INVALID_CURSOR' },
      unreadable: {
        code: 'INVALID_REQUEST',
        message: 'The body is not valid JSON, or holds a forbidden key',
      },
    },
  },
  401: {
    description: 'No valid credentials',
    headers: ['WWW-Authenticate'],
    examples: {
      none: { code: 'UNAUTHORIZED' },
      invalid: { code: 'UNAUTHORIZED', message: 'Invalid or expired API key' },
    },
  },
  403: {
    description: 'The role, the scope or the row does not allow it',
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
  404: { description: 'There is no such resource', examples: { absent: { code: 'RESOURCE_NOT_FOUND' } } },
  406: { description: 'Nothing in Accept can be served', examples: { accept: { code: 'NOT_ACCEPTABLE' } } },
  408: {
    description: 'The request took longer than 10 seconds to arrive',
    byParser: true,
    examples: { slow: { code: 'REQUEST_TIMEOUT' } },
  },
  409: {
    description: 'The state of this resource, or of another one, does not allow it',
    headers: ['Retry-After'],
    examples: {
      taken: {
        code: 'RESOURCE_CONFLICT',
        message: 'The sku is taken',
        violations: [{ field: 'sku', message: 'is taken', code: 'ALREADY_EXISTS' }],
      },
      referred: { code: 'RESOURCE_CONFLICT', message: 'Other resources still refer to this one' },
      running: {
        code: 'RESOURCE_CONFLICT',
        message: 'A request with this Idempotency-Key is still running',
      },
    },
  },
  410: { description: 'This version has ended', examples: { retired: { code: 'VERSION_RETIRED' } } },
  412: {
    description: 'The resource has changed, or a condition does not match it; ETag is the current one',
    headers: ['ETag'],
    examples: { changed: { code: 'PRECONDITION_FAILED' } },
  },
  413: {
    description: 'The body is larger than the server takes: 1 MiB by default, 16 KiB without credentials',
    byParser: true,
    examples: { large: { code: 'PAYLOAD_TOO_LARGE' } },
  },
  414: {
    description: 'The query string is longer than 8 KiB',
    byParser: true,
    examples: { long: { code: 'URI_TOO_LONG' } },
  },
  415: {
    description: 'The media type, the charset or the encoding of the body is not supported',
    headers: ['Accept', 'Accept-Patch', 'Accept-Encoding'],
    examples: { type: { code: 'UNSUPPORTED_MEDIA_TYPE' } },
  },
  422: {
    description: 'Members of the body are invalid; all of them are named, up to 50',
    examples: {
      members: {
        code: 'VALIDATION_ERROR',
        message: 'The body has invalid members',
        violations: [
          { field: 'name', message: 'is required', code: 'REQUIRED' },
          { field: 'price', message: 'is not a known member', code: 'UNKNOWN_FIELD' },
        ],
      },
      reused: { code: 'IDEMPOTENCY_KEY_REUSED' },
    },
  },
  428: {
    description: 'If-Match is required here',
    examples: { unconditional: { code: 'PRECONDITION_REQUIRED' } },
  },
  429: {
    description: 'Too many requests, or too many that failed; Retry-After says when to go on',
    headers: ['Retry-After'],
    examples: { exceeded: { code: 'RATE_LIMIT_EXCEEDED' } },
  },
  431: {
    description: 'The header fields are larger than 16 KiB',
    byParser: true,
    examples: { large: { code: 'HEADERS_TOO_LARGE' } },
  },
  500: {
    description: 'Something went wrong on our side',
    examples: { bug: { code: 'INTERNAL_SERVER_ERROR' } },
  },
  502: {
    description: 'The identity provider returned an invalid response',
    examples: {
      provider: { code: 'BAD_GATEWAY', message: 'The identity provider returned an invalid response' },
    },
  },
  503: {
    description: 'The service is not available right now',
    headers: ['Retry-After'],
    examples: { busy: { code: 'SERVICE_UNAVAILABLE' } },
  },
}

type Envelope = Pick<Representation, 'error'> & { schemas: Pick<Representation['schemas'], 'error'> }

/** The envelope of what no version serves: that of the default one, which is alike in all where there are no details. */
const plain: Envelope = {
  error: ({ violations: _, ...error }) => ({ error }),
  schemas: { error: UnversionedError },
}

/** The failure of a status, in a version's envelope, or in none's. */
export function failure(status: number, envelope: Envelope = plain) {
  const told = statuses[status]
  if (!told) throw new Error(`Nothing is said of the status ${status}`)
  const examples = Object.entries(told.examples).map(([name, { code, message, violations = [] }]) => {
    const said = message ?? failures[code].message
    const value = envelope.error({ code, message: said, request_id: exampleId, violations })
    return [name, { summary: said, value }]
  })
  return reply({
    description: told.description,
    headers: told.headers ?? [],
    schema: envelope.schemas.error,
    examples: Object.fromEntries(examples),
    optional: told.byParser ? inVersions : [],
    unversioned: envelope === plain,
  })
}

/** What any operation of a version may end in. */
export const everyFailure = [400, 401, 403, 406, 408, 414, 429, 431, 500, 503]
