/** The introduction of the OpenAPI documents and, with examples and tables, of the documentation page. */
import { getAnchor, writeErrorCodes } from './error-codes.ts'

interface Section {
  title: string
  text: string
  /** For the page only: the size of the documents is limited. */
  details: string
}

const introduction = `
A JSON API with a collection for each kind of resource. All collections work the same way: their names are plural nouns,
and their resources are read (GET), replaced (PUT), partially updated (PATCH, RFC 7396) and deleted by id.
`.trim()

/** What only the page can offer: files beside it, and its own form. */
const getPageIntroduction = (version: number) =>
  `
To send requests from this page, choose **Sign in** at its top: with your e-mail address and password, or with an API key.

To use another program, download the [OpenAPI document](../openapi/v${version}.json), the
[Postman collection](../openapi/v${version}.postman.json) or the [Bruno collection](../openapi/v${version}.bruno.json). In a
collection, set \`api_key\`; a run of the whole collection creates one resource of each kind, changes it and deletes it.
`.trim()

const toSample = (language: string, text: string) => `\`\`\`${language}\n${text}\n\`\`\``

const getSections = (version: number, about: string): Section[] => [
  {
    title: 'Authentication',
    text: `
Send \`X-API-Key: <key>\` or \`Authorization: Bearer <token>\`, but not both. A credential has the permissions of its
owner's role (admin, manager, member). A key is also limited to its scopes, such as \`products:read\`; each operation
names its scope in \`x-required-scopes\`. A write scope includes the read scope of the same collection. A request without
a valid credential is answered with 401, and one without permission with 403.`,
    details: toSample(
      'sh',
      `curl "$URL/api/v${version}/users/me" \\
  -H "X-API-Key: $KEY"`,
    ),
  },
  {
    title: 'Pagination',
    text: `
Lists use cursor pagination by default: pass \`pagination.cursor\` to the next request until \`has_more\` is false, or follow
\`Link: rel="next"\`. Each row that exists during the whole traversal is returned exactly once, even if other rows are added
or deleted. With \`page\`, the list has a total, but pages end at 10,000 rows.`,
    details: toSample(
      'sh',
      `curl "$URL/api/v${version}/products?limit=50&cursor=$CURSOR" \\
  -H "X-API-Key: $KEY"`,
    ),
  },
  {
    title: 'Filtering and sorting',
    text: `
\`search\` and filters select rows: \`status=active,draft\` those with one of the values, \`price_amount_min=500\` and
\`created_after=2026-11-21\` those within limits. \`sort=-price_amount,name\` sets their order, \`fields=name,stock\` selects
fields, and \`include=user\` adds related resources.`,
    details: toSample(
      'sh',
      `curl "$URL/api/v${version}/products?status=active&price_amount_max=2000&sort=-price_amount" \\
  -H "X-API-Key: $KEY"`,
    ),
  },
  {
    title: 'Idempotency',
    text: `
A POST or PATCH with an \`Idempotency-Key\` is done once, however often it is sent within 24 hours. The same request again
gets the stored response, with \`Idempotency-Replayed: true\`.`,
    details: `The same key with another body is answered with 422, and a repetition while the first request is running with 409.

${toSample(
  'sh',
  `curl -X POST "$URL/api/v${version}/orders" \\
  -H "X-API-Key: $KEY" \\
  -H "Content-Type: application/json" \\
  -H "Idempotency-Key: cart-1042" \\
  -d '{"items": [{"product_id": "'$PRODUCT'", "quantity": 2}]}'`,
)}`,
  },
  {
    title: 'Errors',
    text: `
Every error has the form \`{"error": {"code", "message", "request_id"}}\`. Validation errors are reported together, each
with its \`field\` and a \`code\`. Unknown parameters and fields are rejected, not ignored. Include the \`request_id\`
when you ask for support.`,
    // Scalar makes such an anchor of each heading.
    details: writeErrorCodes((code) => `#v${version}/description/${getAnchor(code)}`),
  },
  {
    title: 'Versions',
    text: `
Each version represents the same resources in its own format. This is version ${version}. ${about}
The path prefixes \`/api\` and \`/v${version}\` are optional. If the path names no version,
\`Accept: application/vnd.api+json;version=${version}\` selects one; otherwise the default version of the service answers.
Every response names its version in \`API-Version\`.`,
    details: toSample(
      'sh',
      `curl "$URL/products" \\
  -H "X-API-Key: $KEY" \\
  -H "Accept: application/vnd.api+json;version=${version}"`,
    ),
  },
  {
    title: 'Limits',
    text: `
Every response states the rate limit in \`X-RateLimit-Limit\`, \`X-RateLimit-Remaining\` and \`X-RateLimit-Reset\`.
A request beyond the limit is answered with 429; retry it after the number of seconds in \`Retry-After\`.`,
    details: toSample(
      'http',
      `HTTP/1.1 429 Too Many Requests
Retry-After: 12
X-RateLimit-Limit: 600
X-RateLimit-Remaining: 0
X-RateLimit-Reset: 1795255260`,
    ),
  },
  {
    title: 'Conditional requests',
    text: `
Each resource has an \`ETag\`. Send it as \`If-None-Match\` to get 304 if the resource has not changed. Send it as
\`If-Match\` with PUT, PATCH and DELETE to get 412 if another client has changed the resource, instead of
overwriting that change. A GET with \`If-Match\` is answered with 412 unless the entire tag is the same.`,
    details: toSample(
      'sh',
      `curl -X PATCH "$URL/api/v${version}/products/$PRODUCT" \\
  -H "X-API-Key: $KEY" \\
  -H "Content-Type: application/merge-patch+json" \\
  -H "If-Match: $ETAG" \\
  -d '{"price_amount": 1799}'`,
    ),
  },
]

/**
 * Returns the introduction of an OpenAPI document, in Markdown.
 * @param about how the version represents resources and errors
 */
export const getGuide = (version: number, about: string): string =>
  [
    introduction,
    ...getSections(version, about).map(({ title, text }) => `## ${title}\n\n${text.trim()}`),
  ].join('\n\n')

/** Returns the introduction of the documentation page, in Markdown. */
export const getPageGuide = (version: number, about: string): string =>
  [
    introduction,
    getPageIntroduction(version),
    ...getSections(version, about).map(
      ({ title, text, details }) => `## ${title}\n\n${text.trim()}\n\n${details}`,
    ),
  ].join('\n\n')
