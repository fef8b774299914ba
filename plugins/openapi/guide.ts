/** What a reader of the documents should know before the first request. */

/** @param about how the version writes resources and errors */
export const guideOf = (version: number, about: string) =>
  `
Users, their profiles and posts, products and orders over HTTP, as JSON. Collections are plural nouns, members are
read, replaced (PUT), changed in part (PATCH, RFC 7396) and removed under their id; nothing else needs to be learnt twice.

## Authentication

Send \`X-API-Key: <key>\`, or \`Authorization: Bearer <token>\`, and never both. What a credential may do is its
owner's role (admin, manager, member); a key is limited to its scopes, such as \`products:read\`, which each operation
names in \`x-required-scopes\`. The scope to write a collection includes the one to read it. Without a credential the answer is 401; with one that does not suffice, 403.

To sign in on this page, send \`POST /tokens\` (under tokens) with an e-mail address and a password, tick \`bearer\`
in place of \`apiKey\` beside Authentication, and put the answer's \`access_token\` there.

\`\`\`sh
curl -H "X-API-Key: $KEY" "$URL/api/v${version}/products?limit=5&sort=-price_amount"
\`\`\`

## Versions

A version is one representation of the same resources; this is version ${version}. ${about}
Every path answers with and without \`/api\`, and with and without \`/v${version}\`: where the path names no version,
\`Accept: application/vnd.api+json;version=${version}\` does, and else the service has a default. Every reply says which
version it is in: \`API-Version\`.

## Lists

Without \`page\`, a list is read by cursors: pass on \`pagination.cursor\` until \`has_more\` is false, or follow
\`Link: rel="next"\`. Every row that is there throughout comes exactly once, whatever is added or removed meanwhile. With
\`page\`, there is a total, and no more than 10,000 rows deep. \`sort=-price_amount,name\` orders, \`fields=name,stock\`
narrows the members, \`include=user\` brings related resources along; \`search\` and the filters select.

## Errors

Every failure, whatever raised it, is \`{"error": {"code", "message", "request_id"}}\`. What is wrong with single members
or parameters is said of all of them at once, each with its \`field\` and a \`code\` of its own.
Unknown parameters and members are refused, not ignored. Quote \`request_id\` when you ask for help.

## Limits

Every reply says how many requests are left and until when: \`X-RateLimit-Limit\`, \`X-RateLimit-Remaining\`,
\`X-RateLimit-Reset\`. One too many is 429; wait as many seconds as its \`Retry-After\` says.

## Conditional requests

Each resource has an \`ETag\`. Send it as \`If-None-Match\` to be told 304 while nothing has changed, and as \`If-Match\`
with PUT, PATCH and DELETE to get 412 instead of overwriting a change that another client has made since. A read with
\`If-Match\` is 412 unless the whole tag is still the same.
`.trim()
