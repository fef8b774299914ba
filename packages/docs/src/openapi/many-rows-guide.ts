/** The sections of the guide on many rows: batches, exports, imports. */
import { toCamelCase, writeClientProgram, writeCurl } from './code-samples.ts'
import { type GuideExamples, type GuideOptions, writeBlock } from './guide-examples.ts'

function getBatchSection({ operations, ...context }: GuideOptions): string {
  const batch = operations.find(({ operationId }) => operationId === 'createBatch')
  if (!batch) return ''
  return `## Batches

\`POST /batches\` runs writes of one or several collections in one transaction: all of them, or none. Where an id is expected,
\`$0\` stands for the id of the resource that the first operation creates. What is wrong with the operations is reported for
all of them; otherwise the first that fails decides the status.

%%
${writeBlock('sh', writeCurl(batch, context.server))}

${writeBlock('ts', writeClientProgram(batch, context))}

`
}

/** Returns the name of a unique field of a collection, which the description of its imports has. */
const readConflictField = ({ create }: GuideExamples) =>
  /on_conflict=(\w+)/.exec(create.description ?? '')?.[1]

/** @returns the sections, each with its samples after the separator */
export function getManyRowsSections(options: GuideOptions, examples: GuideExamples): string {
  const { server, version } = options
  const url = `${server}/api/v${version}/${examples.name}`
  const collection = `client.${toCamelCase(examples.name)}`
  const header = '-H "X-API-Key: YOUR_API_KEY"'
  const field = readConflictField(examples)
  const changes =
    field === undefined
      ? ''
      : ` With \`on_conflict=${field}\`, a row whose \`${field}\` exists changes that resource.`
  return `${getBatchSection(options)}## Exports

With \`Accept: application/x-ndjson\` or \`text/csv\`, a list is an export: one response with all its rows in the order of
\`sort\`, without \`limit\`, \`cursor\`, \`page\` and \`include\`. If it ends before the end of its body, it is incomplete. It
counts as one request per 100 rows, and waits where the rate limit is reached. A user can have one at a time.

%%
\`\`\`sh
curl --fail "${url}" \\
  ${header} \\
  -H "Accept: text/csv" -o ${examples.name}.csv
\`\`\`

\`\`\`ts
for await (const row of ${collection}.export()) console.log(row.id)
\`\`\`

## Imports

A POST to a collection with \`Content-Type: application/x-ndjson\` or \`text/csv\` creates all rows of the body in one
transaction, or none.${changes}
Read-only fields are ignored, so that an export can be edited and sent back. With \`dry_run=true\`, errors are reported by
row and nothing is written.

%%
\`\`\`sh
curl -X POST "${url}?dry_run=true" \\
  ${header} \\
  -H "Content-Type: text/csv" --data-binary @${examples.name}.csv
\`\`\`

\`\`\`ts
const { created, updated } = await ${collection}.import(rows${field === undefined ? '' : `, { onConflict: "${field}" }`})
\`\`\`

`
}
