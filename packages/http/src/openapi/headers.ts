/** Describes every response header once: those of every response in the guide, all others as components. */
import { identity } from '@resource-api/database'
import { securityHeaders } from '../http/response-headers.ts'
import { exampleId, MAX_INTEGER } from '../schemas/types.ts'

export interface Header {
  description: string
  schema: { type: 'string' | 'integer'; enum?: readonly string[]; minimum?: number; maximum?: number }
  example: string | number
  /** Whether every response that lists the header has it. */
  required?: boolean
}

const text = (description: string, example: string, isRequired = false): Header => ({
  description,
  schema: { type: 'string' },
  example,
  ...(isRequired && { required: true }),
})

const integer = (description: string, example: number, minimum: number, isRequired = true): Header => ({
  description,
  schema: { type: 'integer', minimum, maximum: MAX_INTEGER },
  example,
  ...(isRequired && { required: true }),
})

const EXAMPLE_URL = `/api/v1/users/${exampleId}`
const JSON_TYPES = 'application/json, application/vnd.api+json'

export const headers = {
  'X-Request-Id': text(
    'The id of the request, also in the logs; the one you sent, if it is 8-128 characters of `[A-Za-z0-9_.-]`',
    exampleId,
    true,
  ),
  'Cache-Control': text(
    '`private, no-cache` for reads, `no-store` for all other responses',
    'private, no-cache',
    true,
  ),
  'API-Version': integer('The API version of the response', 1, 1),
  Vary: text('The request headers that the response depends on', 'Accept, Authorization, X-API-Key', true),
  'X-RateLimit-Limit': integer('The maximum number of requests in the rate limit window', 600, 0),
  'X-RateLimit-Remaining': integer('The number of requests left in the window', 599, 0),
  'X-RateLimit-Reset': integer('The end of the window, in seconds since 1970', 1_795_255_260, 0),
  ETag: text('The entity tag, for `If-Match` and `If-None-Match`; an export has none', '"3-qHXEPvBzWe2L"'),
  'Content-Disposition': text('`attachment`, only of an export', 'attachment; filename="users.csv"'),
  'Last-Modified': text(
    'The time of the last change, for `If-Modified-Since`; absent with `include`',
    'Sat, 21 Nov 2026 09:30:00 GMT',
  ),
  Link: text(
    '`next`, `first`, and with `page` also `prev` and `last` (RFC 8288); `successor-version` in a deprecated version; `help` in an error: the text about its code',
    '</api/v1/users?limit=20>; rel="first"',
  ),
  Location: text('The URL of the new resource', EXAMPLE_URL, true),
  'Preference-Applied': text('`return=minimal` if `Prefer` asked for it', 'return=minimal'),
  'Idempotency-Replayed': {
    description:
      '`true` if this is the stored response to an earlier request with the same `Idempotency-Key`; nothing was written again',
    schema: { type: 'string', enum: ['true'] },
    example: 'true',
  },
  'WWW-Authenticate': text('How to authenticate', `Bearer realm="${identity.realm}"`, true),
  'Retry-After': integer('The number of seconds to wait before a retry', 1, 1, false),
  Accept: text('The supported media types of request bodies', JSON_TYPES),
  'Accept-Patch': text(
    'The supported media types of PATCH bodies',
    `${JSON_TYPES}, application/merge-patch+json`,
  ),
  'Accept-Encoding': text('The supported content encodings, if the encoding was the reason', 'identity'),
  Deprecation: text('The date of deprecation of the version (RFC 9745)', '@1795255200'),
  Sunset: text('The end of the version (RFC 8594)', 'Sat, 20 Nov 2027 09:30:00 GMT'),
} as const satisfies Record<string, Header>

export type HeaderName = keyof typeof headers

/** Returns the headers with these names. */
export const pickHeaders = (...names: readonly HeaderName[]): Record<string, Header> =>
  Object.fromEntries(names.map((name) => [name, headers[name]]))

/** The headers of every response, apart from the constant ones. */
export const COMMON_HEADERS: readonly HeaderName[] = ['X-Request-Id', 'Cache-Control']

/** The headers of every response of a version, except those of the HTTP parser. */
export const VERSION_HEADERS: readonly HeaderName[] = [
  'API-Version',
  'Vary',
  'X-RateLimit-Limit',
  'X-RateLimit-Remaining',
  'X-RateLimit-Reset',
]

/** The headers of a deprecated version. A request may be rejected before they are set. */
export const DEPRECATION_HEADERS: readonly HeaderName[] = ['Deprecation', 'Sunset', 'Link']

const describe = (names: readonly HeaderName[]) =>
  names.map((name) => `- \`${name}\`: ${headers[name].description}`).join('\n')

/**
 * Describes the headers of every response once for the whole document. Declared in each response, they would be an eighth
 * of it.
 */
export const commonHeadersGuide = `
## Headers of every response

The responses in this document declare the headers that they have in addition to these:

${describe(COMMON_HEADERS)}
${describe(VERSION_HEADERS)}
- \`Link\`, of errors: \`help\`, the address of the text about the code

Responses outside the versions, and those of the HTTP parser (400, 408, 413, 414, 431), may lack the last
${VERSION_HEADERS.length}. Constant headers restrict what browsers do with a response: ${Object.keys(
  securityHeaders,
)
  .map((name) => `\`${name}\``)
  .join(', ')}.
`.trim()
