/** The introduction of the OpenAPI documents and, with examples and tables, of the documentation page. */
import { identity } from '@resource-api/database'
import { roles } from '@resource-api/database/internal'
import { getAccountsSection, getAgentsSection, getPermissionsSection } from './accounts-guide.ts'
import {
  CLIENT_VERSION,
  type SampleContext,
  writeClientProgram,
  writeCurl,
  writePythonProgram,
} from './code-samples.ts'
import { getAnchor, writeErrorCodes } from './error-codes.ts'
import {
  chooseExamples,
  findParameter,
  type GuideExamples,
  type GuideOptions,
  writeBlock,
} from './guide-examples.ts'
import { getManyRowsSections } from './many-rows-guide.ts'

/** Separates the text of a section from the details that only the page has: the size of the documents is limited. */
const SEPARATOR = '\n\n%%\n'

const introduction = `
A JSON API with a collection for each kind of resource. All collections work the same way: their names are plural nouns,
and their resources are read (GET), replaced (PUT), partially updated (PATCH, RFC 7396) and deleted by id.
`.trim()

/** Returns the introduction of the page, which has a sign-in form and links to the files served with it. */
const getPageIntroduction = (version: number) =>
  `
Start with [an API key](#v${version}/description/getting-an-api-key). In the examples of this page, replace words in capitals
such as \`YOUR_API_KEY\` or \`USER_ID\` with values of yours. Ids in examples of bodies do not exist either.

To send requests from this page, choose **Sign in** at its top: with your e-mail address and password, or with an API key.

To use another program, download the [OpenAPI document](../openapi/v${version}.json), the
[Postman collection](../openapi/v${version}.postman.json) or the [Bruno collection](../openapi/v${version}.bruno.json). In a
collection, set \`api_key\`; a run of the whole collection creates one resource of each kind, changes it and deletes it.
`.trim()

/** Returns whether an operation can be called without credentials. */
const isOpen = ({ security }: GuideOptions['operations'][number]): boolean =>
  security.some((scheme) => Object.keys(scheme).length === 0)

/** Returns how to get the first credential: with an account, which may need the operator. */
function getKeySection({ operations, server }: GuideOptions): string {
  const find = (id: string) => operations.find(({ operationId }) => operationId === id)
  const signUp = find('createUser')
  const account =
    signUp && isOpen(signUp)
      ? 'Create an account with `POST /users`.'
      : 'You need an account: ask the operator of this service for one.'
  const forgotten = find('createPasswordReset')
    ? ' If you have forgotten your password, `POST /password-resets` sends you a mail with a link.'
    : ''
  const samples = [find('createToken'), find('createApiKey')].filter((each) => each !== undefined)
  return `## Getting an API key

${account} Sign in with \`POST /tokens\`: the response has an \`access_token\`, which is valid for a few minutes. With this
token, create a key with \`POST /api-keys\`. The response has the \`key\`, which is not shown again; a key is valid until it
expires or is deleted.${forgotten}

%%
${samples.map((operation) => writeBlock('sh', writeCurl(operation, server))).join('\n\n')}

`
}

const getClientSection = (context: SampleContext, { list }: GuideExamples) => `## Client libraries

The npm package \`${identity.clientPackage}\` is a client for TypeScript and JavaScript with the types of version ${CLIENT_VERSION}: it
reads all pages of a list, repeats requests safely, and refreshes access tokens. Any HTTP client works too, and other
languages have generators of clients for OpenAPI documents.

%%
${writeBlock('sh', `npm install ${identity.clientPackage}`)}

${writeBlock('ts', writeClientProgram(list, context))}

The same list in Python:

${writeBlock('python', writePythonProgram(list, context.server))}

and with curl:

${writeBlock('sh', writeCurl(list, context.server))}

`

const getEventsSection = (
  { version, server }: GuideOptions,
  { name }: GuideExamples,
) => `## Events and webhooks

Every change of a resource is an event, with a \`type\` such as \`${name}.created\`, the resource after the change in \`data\`,
and the former values of the fields that changed in \`previous\`. \`GET /events?sort=position\` is the feed, in an order that
never changes: a consumer continues from its last cursor and sees each event once. With \`Accept: text/event-stream\` the
feed is a stream. A webhook endpoint receives the events of its \`event_types\` as POST requests with a signature, at least
once.

%%
Follow the stream. To continue after a lost connection, send the last \`id\` as \`Last-Event-ID\`.

\`\`\`sh
curl -N "${server}/api/v${version}/events?type=${name}.*" \\
  -H "X-API-Key: YOUR_API_KEY" \\
  -H "Accept: text/event-stream"
\`\`\`

The client package does this, and connects again:

\`\`\`ts
for await (const { cursor, event } of client.events.stream({ type: ["${name}.*"] })) {
  console.log(event.type, event.resource_id)
  // Store the cursor: events.stream({ cursor }) continues after it.
  console.log(cursor)
}
\`\`\`

Create a webhook endpoint, as a manager or an admin with an access token. The response has the \`secret\`, which is not shown
again.

\`\`\`sh
curl -X POST "${server}/api/v${version}/webhook-endpoints" \\
  -H "Authorization: Bearer YOUR_ACCESS_TOKEN" \\
  -H "Content-Type: application/json" \\
  -d '{ "url": "https://example.com/webhooks", "event_types": ["${name}.*"] }'
\`\`\`

Verify each request (Standard Webhooks 1.0), and answer 2xx within 10 seconds. Ignore a \`webhook-id\` that you have processed.

\`\`\`ts
import { verifyWebhook } from "${identity.clientPackage}"

const webhook = { body, headers, secret }
const { type, data } = await verifyWebhook(webhook)
\`\`\`

`

/** Returns examples of filters as Markdown. */
function describeFilters({ list, filter, minimum, fields }: GuideExamples): string {
  const values: string[] = filter.schema.items?.enum ?? []
  const lower = minimum && `\`${minimum.name}=500\``
  const limits = [...(lower === undefined ? [] : [lower]), '`created_after=2026-11-21`'].join(' and ')
  const sorts: string[] = findParameter(list, 'sort')?.schema.items?.enum ?? []
  return `\`search\` and filters select rows: \`${filter.name}=${values.slice(0, 2).join(',')}\` those with one of the values,
${limits} those within limits. \`sort=-${sorts[0]}\` sets their order, \`fields=${fields.slice(0, 2).join(',')}\`
selects fields, and \`include\` adds related resources where a collection has any. Parameters that end in \`_not\`, \`_null\` and
\`_prefix\` exclude values, find null, and compare the beginning of a text.`
}

function getAggregatesSection({ operations, server }: GuideOptions): string {
  const operation = operations.find(({ url }) => url.endsWith('/aggregates'))
  if (!operation) return ''
  return `## Aggregates

Figures of a list come from \`/aggregates\` below it: the count, sums, averages, least and greatest values of exactly the rows
that you may list, of all or in groups, with the same filters. Each counts as ten requests.

%%
${writeBlock('sh', writeCurl(operation, server))}

`
}

function getSections(options: GuideOptions): string {
  const { version, about, hasEvents, server } = options
  const examples = chooseExamples(options)
  const { name, list, create, update } = examples
  const url = `${server}/api/v${version}/${name}`
  const header = '-H "X-API-Key: YOUR_API_KEY"'
  return `${getKeySection(options)}## Authentication

Send \`X-API-Key: <key>\` or \`Authorization: Bearer <token>\`, but not both. A credential has the permissions of its
owner's role (${roles.toReversed().join(', ')}). A key is also limited to its scopes, such as \`${name}:read\`; each operation
names its scope in \`x-required-scopes\`. A write scope includes the read scope of the same collection. A request without
a valid credential is answered with 401, and one without permission with 403.${options.operations.some(isOpen) ? ' Credentials are optional where an operation says so; invalid ones are 401 there too.' : ''}

%%
\`\`\`sh
curl "${server}/api/v${version}/users/me" \\
  ${header}
\`\`\`

${getPermissionsSection(options)}${getAccountsSection(options)}${getClientSection(options, examples)}${getAgentsSection(options, name)}## Pagination

Lists use cursor pagination by default: pass \`pagination.cursor\` to the next request until \`has_more\` is false, or follow
\`Link: rel="next"\`. Each row that exists during the whole traversal is returned exactly once, even if other rows are added
or deleted. With \`page\`, the list has a total, but pages end at 10,000 rows.

%%
\`\`\`sh
curl "${url}?limit=50&cursor=CURSOR" \\
  ${header}
\`\`\`

## Filtering and sorting

${describeFilters(examples)}

%%
${writeBlock('sh', writeCurl(list, server))}

${getAggregatesSection(options)}${getManyRowsSections(options, examples)}## Idempotency

A POST or PATCH with an \`Idempotency-Key\` is done once, however often it is sent within 24 hours. The same request again
gets the stored response, with \`Idempotency-Replayed: true\`.

%%
The same key with another body is answered with 422, and a repetition while the first request is running with 409. The
client package sends a key of its own with each of these requests.

${writeBlock('sh', writeCurl(create, server, ['Idempotency-Key: import-1042']))}

${hasEvents ? getEventsSection(options, examples) : ''}## Errors

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
curl "${server}/${name}" \\
  ${header} \\
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
The method \`edit\` of the client package does this: it reads the resource again after a 412.

${writeBlock('sh', writeCurl(update, server, ['If-Match: ETAG']))}`
}

/** Returns the introduction of an OpenAPI document, in Markdown. */
export const getGuide = (options: GuideOptions): string => {
  const sections = getSections(options).split(/(?<=\n\n)(?=## )/)
  return [introduction, ...sections.map((section) => section.split(SEPARATOR, 1)[0])].join('\n\n')
}

/**
 * Returns the introduction of the documentation page, in Markdown. It begins with a heading: Scalar then lists all its
 * sections above the operations, and otherwise hides them in a closed group.
 */
export const getPageGuide = (options: GuideOptions): string =>
  [
    '## Introduction',
    introduction,
    getPageIntroduction(options.version),
    getSections(options).replaceAll(SEPARATOR, '\n\n'),
  ].join('\n\n')
