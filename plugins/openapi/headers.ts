/** Every header that a reply may carry, described once: operations name them, the documents refer to them. */
import { securityHeaders } from '../http/security-headers.ts'

export interface Header {
  description: string
  schema: { type: 'string' | 'integer'; enum?: readonly string[]; format?: string }
  example: string | number
  /** On every reply that names it. */
  required?: boolean
}

const text = (description: string, example: string, required = false): Header => ({
  description,
  schema: { type: 'string' },
  example,
  ...(required ? { required } : {}),
})

const count = (description: string, example: number): Header => ({
  description,
  schema: { type: 'integer' },
  example,
  required: true,
})

const constant = (description: string, value: string): Header => ({
  description,
  schema: { type: 'string', enum: [value] },
  example: value,
  required: true,
})

export const headers = {
  'X-Request-Id': text(
    'Names the request, in the logs too: your own, if it is 8-128 of `[A-Za-z0-9_.-]`',
    '0193a5b0-7b1e-7c3a-9f00-3f2b8c1d4e5f',
    true,
  ),
  'Cache-Control': text('`private, no-cache` on reads, `no-store` on all else', 'private, no-cache', true),
  'Content-Security-Policy': constant(
    'A reply is data, not a page',
    securityHeaders['Content-Security-Policy'],
  ),
  'Cross-Origin-Resource-Policy': constant(
    'Other origins read it by CORS alone',
    securityHeaders['Cross-Origin-Resource-Policy'],
  ),
  'Referrer-Policy': constant('Addresses stay here', securityHeaders['Referrer-Policy']),
  'X-Content-Type-Options': constant(
    'The media type is what it says',
    securityHeaders['X-Content-Type-Options'],
  ),
  'X-Frame-Options': constant('No page may frame it', securityHeaders['X-Frame-Options']),
  'API-Version': {
    description: 'The version that answered',
    schema: { type: 'integer' },
    example: 1,
    required: true,
  },
  Vary: text('Which headers of the request the reply depends on', 'Accept, Authorization, X-API-Key', true),
  'X-RateLimit-Limit': count('How many requests the window takes that this one counts in', 600),
  'X-RateLimit-Remaining': count('How many of them are left', 599),
  'X-RateLimit-Reset': count('When the window ends, in seconds since 1970', 1_795_255_260),
  ETag: text('The entity tag, for `If-Match` and `If-None-Match`', '"3-qHXEPvBzWe2L"', true),
  'Last-Modified': text(
    'When it last changed, for `If-Modified-Since`; not beside `include`',
    'Sat, 21 Nov 2026 09:30:00 GMT',
  ),
  Link: text(
    '`next`, `first`, and for pages with a total `prev` and `last` (RFC 8288); `successor-version` where this one is deprecated',
    '</api/v1/products?limit=20>; rel="first"',
    true,
  ),
  Location: text(
    'Where the new resource stands',
    '/api/v1/products/0193a5b0-7b1e-7c3a-9f00-3f2b8c1d4e5f',
    true,
  ),
  'Idempotency-Replayed': {
    description:
      'On a reply that was told before: the `Idempotency-Key` is known, and nothing was written again',
    schema: { type: 'string', enum: ['true'] },
    example: 'true',
  },
  'WWW-Authenticate': text('How to authenticate', 'Bearer realm="resource-api"', true),
  'Retry-After': {
    description: 'Seconds after which to try again',
    schema: { type: 'integer' },
    example: 1,
  },
  Accept: text('The media types that a body may have', 'application/json, application/vnd.api+json', true),
  'Accept-Patch': text(
    'The media types that PATCH takes',
    'application/json, application/vnd.api+json, application/merge-patch+json',
  ),
  'Accept-Encoding': text('What a body may be encoded as, where that was the reason', 'identity'),
  Deprecation: text('Since when the version is deprecated (RFC 9745)', '@1795255200', true),
  Sunset: text('When the version ends (RFC 8594)', 'Sat, 20 Nov 2027 09:30:00 GMT', true),
} as const satisfies Record<string, Header>

export type HeaderName = keyof typeof headers
