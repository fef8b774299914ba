/** The introduction of the OpenAPI documents and, with examples and tables, of the documentation page. */
import { identity } from '../../lib/identity.ts'
import { getAnchor, writeErrorCodes } from './error-codes.ts'

interface GuideOptions {
  version: number
  /** How the version represents resources and errors. */
  about: string
  /** Whether changes are events, which a setting turns off. */
  hasEvents: boolean
}

/** Separates the text of a section from the details that only the page has: the size of the documents is limited. */
const SEPARATOR = '\n\n%%\n'

const introduction = `
A JSON API with a collection for each kind of resource. All collections work the same way: their names are plural nouns,
and their resources are read (GET), replaced (PUT), partially updated (PATCH, RFC 7396) and deleted by id.
`.trim()

/** The introduction of the page, which has a sign-in form and links to the files served with it. */
const getPageIntroduction = (version: number) =>
  `
To send requests from this page, choose **Sign in** at its top: with your e-mail address and password, or with an API key.

To use another program, download the [OpenAPI document](../openapi/v${version}.json), the
[Postman collection](../openapi/v${version}.postman.json) or the [Bruno collection](../openapi/v${version}.bruno.json). In a
collection, set \`api_key\`; a run of the whole collection creates one resource of each kind, changes it and deletes it.
`.trim()

const getEventsSection = (version: number) => `## Events and webhooks

Every change of a resource is an event, with a \`type\` such as \`orders.created\`, the resource after the change in \`data\`,
and the former values of the fields that changed in \`previous\`. \`GET /events?sort=position\` is the feed, in an order that
never changes: a consumer continues from its last cursor and sees each event once. With \`Accept: text/event-stream\` the
feed is a stream. A webhook endpoint receives the events of its \`event_types\` as POST requests with a signature, at least
once.

%%
Follow the stream. To continue after a lost connection, send the last \`id\` as \`Last-Event-ID\`.

\`\`\`sh
curl -N "$URL/api/v${version}/events?type=products.*" \\
  -H "X-API-Key: $KEY" \\
  -H "Accept: text/event-stream"
\`\`\`

Create a webhook endpoint, as a manager or an admin with an access token. The response has the \`secret\`, which is not shown
again.

\`\`\`sh
curl -X POST "$URL/api/v${version}/webhook-endpoints" \\
  -H "Authorization: Bearer $TOKEN" \\
  -H "Content-Type: application/json" \\
  -d '{"url": "https://example.com/webhooks",
       "event_types": ["orders.*"]}'
\`\`\`

Verify each request (Standard Webhooks 1.0), and answer 2xx within 10 seconds. Ignore a \`webhook-id\` that you have processed.

\`\`\`ts
import { verifyWebhook } from '${identity.clientPackage}'

const webhook = { body, headers, secret }
const { type, data } = await verifyWebhook(webhook)
\`\`\`

`

const getSections = ({ version, about, hasEvents }: GuideOptions) => `## Authentication

Send \`X-API-Key: <key>\` or \`Authorization: Bearer <token>\`, but not both. A credential has the permissions of its
owner's role (admin, manager, member). A key is also limited to its scopes, such as \`products:read\`; each operation
names its scope in \`x-required-scopes\`. A write scope includes the read scope of the same collection. A request without
a valid credential is answered with 401, and one without permission with 403.

%%
\`\`\`sh
curl "$URL/api/v${version}/users/me" \\
  -H "X-API-Key: $KEY"
\`\`\`

## Pagination

Lists use cursor pagination by default: pass \`pagination.cursor\` to the next request until \`has_more\` is false, or follow
\`Link: rel="next"\`. Each row that exists during the whole traversal is returned exactly once, even if other rows are added
or deleted. With \`page\`, the list has a total, but pages end at 10,000 rows.

%%
\`\`\`sh
curl "$URL/api/v${version}/products?limit=50&cursor=$CURSOR" \\
  -H "X-API-Key: $KEY"
\`\`\`

## Filtering and sorting

\`search\` and filters select rows: \`status=active,draft\` those with one of the values, \`price_amount_min=500\` and
\`created_after=2026-11-21\` those within limits. \`sort=-price_amount,name\` sets their order, \`fields=name,stock\` selects
fields, and \`include=user\` adds related resources.

%%
\`\`\`sh
curl "$URL/api/v${version}/products?status=active&price_amount_max=2000&sort=-price_amount" \\
  -H "X-API-Key: $KEY"
\`\`\`

## Idempotency

A POST or PATCH with an \`Idempotency-Key\` is done once, however often it is sent within 24 hours. The same request again
gets the stored response, with \`Idempotency-Replayed: true\`.

%%
The same key with another body is answered with 422, and a repetition while the first request is running with 409.

\`\`\`sh
curl -X POST "$URL/api/v${version}/orders" \\
  -H "X-API-Key: $KEY" \\
  -H "Content-Type: application/json" \\
  -H "Idempotency-Key: cart-1042" \\
  -d '{"items": [{"product_id": "'$PRODUCT'", "quantity": 2}]}'
\`\`\`

${hasEvents ? getEventsSection(version) : ''}## Errors

Every error has the form \`{"error": {"code", "message", "request_id"}}\`. Validation errors are reported together, each
with its \`field\` and a \`code\`. Unknown parameters and fields are rejected, not ignored. Include the \`request_id\`
when you ask for support.

%%
${writeErrorCodes((code) => `#v${version}/description/${getAnchor(code)}`)}

## Versions

Each version represents the same resources in its own format. This is version ${version}. ${about}
The path prefixes \`/api\` and \`/v${version}\` are optional. If the path names no version,
\`Accept: application/vnd.api+json;version=${version}\` selects one; otherwise the default version of the service answers.
Every response of a resource names its version in \`API-Version\`.

%%
\`\`\`sh
curl "$URL/products" \\
  -H "X-API-Key: $KEY" \\
  -H "Accept: application/vnd.api+json;version=${version}"
\`\`\`

## Limits

Responses state the rate limit in \`X-RateLimit-Limit\`, \`X-RateLimit-Remaining\` and \`X-RateLimit-Reset\`.
A request beyond the limit is answered with 429; retry it after the number of seconds in \`Retry-After\`.

%%
\`\`\`http
HTTP/1.1 429 Too Many Requests
Retry-After: 12
X-RateLimit-Limit: 600
X-RateLimit-Remaining: 0
X-RateLimit-Reset: 1795255260
\`\`\`

## Conditional requests

Each resource has an \`ETag\`. Send it as \`If-None-Match\` to get 304 if the resource has not changed. Send it as
\`If-Match\` with PUT, PATCH and DELETE to get 412 if another client has changed the resource, instead of
overwriting that change. A GET with \`If-Match\` is answered with 412 unless the entire tag is the same.

%%
\`\`\`sh
curl -X PATCH "$URL/api/v${version}/products/$PRODUCT" \\
  -H "X-API-Key: $KEY" \\
  -H "Content-Type: application/merge-patch+json" \\
  -H "If-Match: $ETAG" \\
  -d '{"price_amount": 1799}'
\`\`\``

/** Returns the introduction of an OpenAPI document, in Markdown. */
export const getGuide = (options: GuideOptions): string => {
  const sections = getSections(options).split(/(?<=\n\n)(?=## )/)
  return [introduction, ...sections.map((section) => section.split(SEPARATOR, 1)[0])].join('\n\n')
}

/** Returns the introduction of the documentation page, in Markdown. */
export const getPageGuide = (options: GuideOptions): string =>
  [
    introduction,
    getPageIntroduction(options.version),
    getSections(options).replaceAll(SEPARATOR, '\n\n'),
  ].join('\n\n')
