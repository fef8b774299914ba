/** Describes error responses for OpenAPI: the meaning, the codes, the headers and examples of each status. */
import { STATUS_CODES } from 'node:http'
import {
  type DocumentedResponse,
  type HeaderName,
  type Operation,
  pickHeaders,
  toPascalCase,
} from '@resource-api/api/documents'
import {
  type FailureCode,
  type FailureDefinition,
  failureCodes,
  failures,
  type Violation,
} from '@resource-api/api/errors'
import { exampleId, OneOf } from '@resource-api/api/schemas'
import type { Representation } from '@resource-api/api/versions'
import { roles } from '@resource-api/database/roles'
import { type TObject, Type } from '@sinclair/typebox'

interface FailureExample {
  name: string
  code: FailureCode
  message: string
  violations: readonly Violation[]
}

const toExample = (
  name: string,
  code: FailureCode,
  message: string = failures[code].message,
  violations: readonly Violation[] = [],
): FailureExample => ({ name, code, message, violations })

/** Of the statuses that depend on the operation: a description if they have several codes, and their headers. */
const statuses: Record<number, { description?: string; headers?: readonly HeaderName[] }> = {
  400: { description: 'The request is malformed, or a parameter is invalid' },
  401: { headers: ['WWW-Authenticate'] },
  409: { headers: ['Retry-After'] },
  410: {
    description: 'This API version has been retired, or events after the cursor have been removed or lost',
  },
  412: { headers: ['ETag'] },
  422: {
    description:
      'Fields of the body are invalid (up to 50 are listed), or the Idempotency-Key was used with another body',
  },
  429: { headers: ['Retry-After', 'X-RateLimit-Limit', 'X-RateLimit-Remaining', 'X-RateLimit-Reset'] },
  503: { headers: ['Retry-After'] },
}

/** Returns the codes that a status has. @throws Error if there are none */
function listCodes(status: number): FailureCode[] {
  const codes = failureCodes.filter((code) => {
    const { status: first, statuses: all = [first] }: FailureDefinition = failures[code]
    return all.includes(status)
  })
  if (codes.length === 0) throw new Error(`There is no error code with the status ${status}`)
  return codes
}

const isBearerOnly = ({ security }: Operation) =>
  security.length > 0 && security.every((scheme) => !('apiKey' in scheme))

const hasParameter = ({ parameters }: Operation, name: string) =>
  parameters.some((parameter) => parameter.name === name)

const INVALID_LIMIT: Violation = { field: 'limit', message: 'must be <= 100', code: 'OUT_OF_RANGE' }
const UNKNOWN: Violation = { field: 'colour', message: 'is not a known parameter', code: 'UNKNOWN_PARAMETER' }
const UNKNOWN_FIELD: Violation = { field: 'colour', message: 'is not a known field', code: 'UNKNOWN_FIELD' }
const UNREADABLE = 'The body is not valid JSON; see line 3, column 12'
const RUNNING = 'A request with this Idempotency-Key is still running'
const BEARER_ONLY = 'This operation requires a Bearer token; API keys are not accepted'

/** Returns the examples that fit an operation, by their statuses. Other statuses have one of each code. */
function buildExamples(operation: Operation): Record<number, (FailureExample | false)[]> {
  const { body, conflicts } = operation
  const isList = hasParameter(operation, 'cursor')
  const isIdempotent = hasParameter(operation, 'Idempotency-Key')
  const [scope] = operation['x-required-scopes'] ?? []
  return {
    400: [
      toExample('parameter', 'VALIDATION_ERROR', 'The query has invalid parameters', [
        isList ? INVALID_LIMIT : UNKNOWN,
      ]),
      isList && toExample('cursor', 'INVALID_CURSOR'),
      body !== undefined && toExample('unreadable', 'INVALID_REQUEST', UNREADABLE),
    ],
    401: [
      toExample('none', 'UNAUTHORIZED'),
      toExample(
        'invalid',
        'UNAUTHORIZED',
        `Invalid or expired ${isBearerOnly(operation) ? 'token' : 'API key'}`,
      ),
    ],
    403: [
      toExample('role', 'FORBIDDEN', `The role ${roles[0]} is not allowed to do this`),
      scope !== undefined && toExample('scope', 'FORBIDDEN', `The credential lacks the scope ${scope}`),
      isBearerOnly(operation) && toExample('key', 'FORBIDDEN', BEARER_ONLY),
    ],
    409: [
      ...conflicts.map(({ name, message, violations }) =>
        toExample(name, 'RESOURCE_CONFLICT', message, violations),
      ),
      isIdempotent && toExample('running', 'RESOURCE_CONFLICT', RUNNING),
      conflicts.length === 0 && !isIdempotent && toExample('state', 'RESOURCE_CONFLICT'),
    ],
    422: [
      toExample('fields', 'VALIDATION_ERROR', 'The body has invalid fields', [UNKNOWN_FIELD]),
      isIdempotent && toExample('reused', 'IDEMPOTENCY_KEY_REUSED'),
    ],
  }
}

/** Returns what the examples of a status depend on, as the first part of the name of the response. */
function getSubject(status: number, operation: Operation): string {
  const { body, conflicts, messages, operationId, tags, url } = operation
  const isIdempotent = hasParameter(operation, 'Idempotency-Key')
  const owner = isBearerOnly(operation) ? 'Token' : ''
  if (messages[status] !== undefined) return toPascalCase(url.endsWith(':id') ? (tags[0] ?? '') : operationId)
  if (status === 400) return hasParameter(operation, 'cursor') ? 'List' : body ? 'Body' : ''
  if (status === 401) return owner
  if (status === 403)
    return toPascalCase(operation['x-required-scopes']?.[0]?.replace(':', '-') ?? '') || owner
  if (status === 409)
    return conflicts.length > 0 ? toPascalCase(operationId) : isIdempotent ? 'Idempotency' : ''
  return status === 422 && isIdempotent ? 'Idempotency' : ''
}

const toContent = (
  schema: TObject,
  examples: readonly FailureExample[],
  { error }: Representation,
): NonNullable<DocumentedResponse['content']> => ({
  'application/json': {
    schema,
    examples: Object.fromEntries(
      examples.map(({ name, ...example }) => [name, { value: error({ ...example, request_id: exampleId }) }]),
    ),
  },
})

/**
 * Describes the error response of a status, in the envelope of a version, with examples that fit an operation.
 * @returns also the name of the response
 */
export function describeFailure(status: number, operation: Operation, representation: Representation) {
  const codes = listCodes(status)
  const failure = statuses[status] ?? {}
  const description = failure.description ?? codes.map((code) => failures[code].meaning).join('; ')
  const name = `${STATUS_CODES[status]}`.replaceAll(/[^A-Za-z]/g, '')
  // An `ApiError` with one of the codes that the status has. It is required in the schema of all errors.
  const ownCodes = Type.Object({ code: Type.Optional(OneOf(codes, { description: 'A code for programs' })) })
  const { error } = representation.schemas.error.properties
  const reason = Type.Unsafe({ allOf: [error, ownCodes], description: 'The error' })
  const schema = Type.Object({ error: reason }, { title: `${name}Error`, description })
  const message = operation.messages[status]
  const usual = message === undefined ? buildExamples(operation)[status] : undefined
  const examples = usual ?? codes.map((code) => toExample(code.toLowerCase(), code, message))
  const response: DocumentedResponse = {
    description,
    headers: pickHeaders(...(failure.headers ?? [])),
    content: toContent(
      schema,
      examples.filter((example) => example !== false),
      representation,
    ),
  }
  return { name: getSubject(status, operation) + name, response }
}

/** Describes the errors that every operation can have: those of its transport, of the server, and of an overload. */
export const describeOtherFailures = (representation: Representation): DocumentedResponse => ({
  description: 'Another error: the introduction lists all codes with their statuses',
  headers: pickHeaders('Retry-After', 'Accept', 'Accept-Patch', 'Accept-Encoding', 'ETag'),
  content: toContent(
    representation.schemas.error,
    [toExample('bug', 'INTERNAL_SERVER_ERROR'), toExample('busy', 'SERVICE_UNAVAILABLE')],
    representation,
  ),
})
