/** Writes the sample of an operation that uses the client package. Those of other languages are made by the page. */
import { identity } from '@resource-api/database'
import type { Content, Operation } from '@resource-api/http/internal'
import { exampleId } from '@resource-api/http/schemas'
import type { Batch } from '@resource-api/resources/internal'
import type { Static } from '@sinclair/typebox'

/** The version that the client package calls; the documents of other versions have no samples for it. */
export const CLIENT_VERSION = 1

type Parameter = Operation['parameters'][number]

/** The parts of an operation that a sample is written from. */
export type SampledOperation = Pick<Operation, 'method' | 'url' | 'security' | 'parameters' | 'body'>

const getFirstExample = (content: Content | undefined): unknown =>
  Object.values(content?.examples ?? {})[0]?.value

/** Returns the fields of the example of a body that are ids, such as `product_id`. */
export function listExampleIdFields(body: Operation['body']): string[] {
  const fields = new Set<string>()
  JSON.stringify(getFirstExample(body), (name, value) => {
    if (value === exampleId) fields.add(name)
    return value
  })
  return [...fields]
}

/** Returns the example of a body, with placeholders for its ids. */
const buildSampleBody = ({ body }: SampledOperation): unknown =>
  body &&
  JSON.parse(
    JSON.stringify(getFirstExample(body), (name, value) =>
      value === exampleId ? name.toUpperCase() : value,
    ),
  )

/** Writes a value. Names of members have no quotes. */
const writeValue = (value: unknown) => JSON.stringify(value, null, 2).replaceAll(/"(\w+)":/g, '$1:')

/** Returns the id of a resource to replace: `WEBHOOK_ENDPOINT_ID` for `webhook-endpoints`. */
const toPlaceholder = (collection: string) =>
  `${collection.replaceAll('-', '_').replace(/ies$/, 'y').replace(/s$/, '')}_id`.toUpperCase()

/** Returns the values of a path: `me` where the API accepts it, and otherwise a placeholder. */
const listPathValues = ({ url, parameters }: SampledOperation): { name: string; value: string }[] =>
  [...url.matchAll(/\/([^/:]+)\/:(\w+)/g)].map(([, collection = '', name = '']) => {
    const parameter = parameters.find((each) => each.in === 'path' && each.name === name)
    const isCaller = parameter?.schema.examples?.[0] === 'me'
    return { name, value: isCaller ? 'me' : toPlaceholder(collection) }
  })

/** The optional parameters that the samples of lists have: a filter, which many lists have, the order and the size of a page. */
export const LIST_QUERY: readonly string[] = ['status', 'sort', 'limit']

/** Returns the examples of the parameters of a query. */
const getQuery = ({ parameters }: SampledOperation, isSent: (parameter: Parameter) => boolean) =>
  Object.fromEntries(
    parameters
      .filter((each) => each.in === 'query' && isSent(each))
      .map(({ name, schema }): [string, unknown] => [name, schema.examples?.[0] ?? schema.default ?? []]),
  )

const isList = ({ method, parameters }: SampledOperation) =>
  method === 'GET' && parameters.some(({ name }) => name === 'cursor')

const toCamelCase = (name: string) => name.replaceAll(/-(\w)/g, (_, letter: string) => letter.toUpperCase())

/** Returns the member of the client for a collection: `users.posts("me")` for `/api/v1/users/:user_id/posts`. */
const getClientMember = (collection: string, values: readonly string[]) =>
  collection
    .split('/')
    .slice(3)
    .filter((part) => !part.startsWith(':'))
    .map((name, i) => toCamelCase(name) + (i === 0 ? '' : `("${values[i - 1]}")`))
    .join('.')

const CALLS: Readonly<Record<string, string>> = {
  GET: 'get',
  POST: 'create',
  PUT: 'replace',
  PATCH: 'update',
  DELETE: 'delete',
}

/** Writes a batch, whose example has creations only. In a body, `$n` is the id that operation n creates. */
function writeBatchCall(example: unknown): string {
  // It is the example of this schema.
  const { operations } = example as Static<ReturnType<typeof Batch>>
  const calls = operations.map(({ path, body }, n) => {
    const member = getClientMember(`/api/v${CLIENT_VERSION}${path}`, [])
    const value = writeValue(body).replaceAll(/"\$(\d+)"/g, 'operation$1.id')
    return `const operation${n} = client.${member}.batch.create(${value})`
  })
  const names = operations.map((_, n) => `operation${n}`).join(', ')
  return [...calls, `const results = await client.batch([${names}])`, 'console.log(results)'].join('\n')
}

/** Returns the credential that a sample has. */
function getCredential({ security }: SampledOperation) {
  if (security.some((scheme) => 'apiKey' in scheme)) return 'apiKey'
  return security.some((scheme) => 'bearer' in scheme) ? 'bearer' : 'none'
}

/** Writes a call of a path for which the client has no member. */
function writePathCall(operation: SampledOperation): string {
  const { method, url } = operation
  const values = listPathValues(operation)
  const body = buildSampleBody(operation)
  const path = Object.fromEntries(values.map(({ name, value }) => [name, value]))
  const options = { ...(values.length > 0 && { params: { path } }), ...(body !== undefined && { body }) }
  const args = [
    `"${url.replaceAll(/:(\w+)/g, '{$1}')}"`,
    ...(Object.keys(options).length > 0 ? [writeValue(options)] : []),
  ]
  return `const { data } = await client.http.${method}(${args.join(', ')})\nconsole.log(data)`
}

function writeCall(operation: SampledOperation, urls: ReadonlySet<string>): string {
  const { method, url } = operation
  const collection = url.replace(/\/(?::id|aggregates)$/, '')
  const body = buildSampleBody(operation)
  if (url === `/api/v${CLIENT_VERSION}/batches`) return writeBatchCall(body)
  // The client has a member for each collection whose resources have an id.
  if (!urls.has(`${collection}/:id`)) return writePathCall(operation)
  const values = listPathValues(operation)
  const parents = values.slice(0, collection.split('/:').length - 1).map(({ value }) => value)
  const member = `client.${getClientMember(collection, parents)}`
  if (isList(operation)) {
    const list = `${member}.list(${writeValue(getQuery(operation, ({ name }) => LIST_QUERY.includes(name)))})`
    return `for await (const item of ${list}) {\n  console.log(item)\n}`
  }
  if (url === `${collection}/aggregates`)
    return `const groups = await ${member}.aggregate(${writeValue(getQuery(operation, ({ isRequired }) => isRequired === true))})\nconsole.log(groups)`
  const id = collection === url ? [] : [`"${values.at(-1)?.value}"`]
  const args = [...id, ...(body === undefined ? [] : [writeValue(body)])]
  // A change without credentials is the completion of a link in a mail.
  const isCompletion = method === 'PATCH' && getCredential(operation) === 'none'
  const call = `await ${member}.${isCompletion ? 'complete' : CALLS[method]}(${args.join(', ')})`
  return method === 'DELETE' ? call : `const item = ${call}\nconsole.log(item)`
}

const CREDENTIALS = {
  apiKey: '\n  apiKey: "YOUR_API_KEY",',
  bearer: '\n  signIn: { email: "YOUR_EMAIL", password: "YOUR_PASSWORD" },',
  none: '',
}

/**
 * Writes a program with the client package.
 * @param urls the paths of all operations of the document
 */
export const writeClientProgram = (
  operation: SampledOperation,
  server: string,
  urls: ReadonlySet<string>,
) => `import { createClient } from "${identity.clientPackage}"

const client = createClient({
  baseUrl: "${server}",${CREDENTIALS[getCredential(operation)]}
})
${writeCall(operation, urls)}`
