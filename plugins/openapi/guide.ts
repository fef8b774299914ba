/** The introduction in the description of each OpenAPI document. */

/** @param about how the version represents resources and errors */
export const getGuide = (version: number, about: string) =>
  `
A JSON API for users, their profiles and posts, products and orders. All collections work the same way: their names are
plural nouns, and their resources are read (GET), replaced (PUT), partially updated (PATCH, RFC 7396) and deleted by id.

## Authentication

Send \`X-API-Key: <key>\` or \`Authorization: Bearer <token>\`, but not both. A credential has the permissions of its
owner's role (admin, manager, member). A key is also limited to its scopes, such as \`products:read\`; each operation
names its scope in \`x-required-scopes\`. A write scope includes the read scope of the same collection. A request without
a valid credential is answered with 401, and one without permission with 403.

To sign in on this page, send \`POST /tokens\` (under tokens) with an e-mail address and a password, select \`bearer\`
instead of \`apiKey\` under Authentication, and enter the \`access_token\` of the response.

\`\`\`sh
curl -H "X-API-Key: $KEY" "$URL/api/v${version}/products?limit=5&sort=-price_amount"
\`\`\`

All operations are also in a [Postman collection](../openapi/v${version}.postman.json) and in a
[Bruno collection](../openapi/v${version}.bruno.json). Import the file and set \`api_key\`; a run of the whole collection creates
one resource of each kind, changes it and deletes it.

## Versions

Each version represents the same resources in its own format. This is version ${version}. ${about}
The path prefixes \`/api\` and \`/v${version}\` are optional. If the path names no version,
\`Accept: application/vnd.api+json;version=${version}\` selects one; otherwise the default version of the service answers.
Every response names its version in \`API-Version\`.

## Lists

Lists use cursor pagination by default: pass \`pagination.cursor\` to the next request until \`has_more\` is false, or follow
\`Link: rel="next"\`. Each row that exists during the whole traversal is returned exactly once, even if other rows are added
or deleted. With \`page\`, the list has a total, but pages end at 10,000 rows. \`sort=-price_amount,name\` sets the
order, \`fields=name,stock\` selects fields, and \`include=user\` adds related resources. \`search\` and filters
select rows: \`status=active,draft\` those with one of the values, \`price_amount_min=500\` and
\`created_after=2026-11-21\` those within limits.

## Errors

Every error has the form \`{"error": {"code", "message", "request_id"}}\`. Validation errors are reported together, each
with its \`field\` and a \`code\`. Unknown parameters and fields are rejected, not ignored. Include the \`request_id\`
when you ask for support.

## Limits

Every response states the rate limit in \`X-RateLimit-Limit\`, \`X-RateLimit-Remaining\` and \`X-RateLimit-Reset\`.
A request beyond the limit is answered with 429; retry it after the number of seconds in \`Retry-After\`.

## Conditional requests

Each resource has an \`ETag\`. Send it as \`If-None-Match\` to get 304 if the resource has not changed. Send it as
\`If-Match\` with PUT, PATCH and DELETE to get 412 if another client has changed the resource, instead of
overwriting that change. A GET with \`If-Match\` is answered with 412 unless the entire tag is the same.
`.trim()
