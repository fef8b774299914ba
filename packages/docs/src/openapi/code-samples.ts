/** Writes the code samples of an operation: curl, TypeScript with the client package, and Python with `requests`. */
import { identity } from '@resource-api/database'
import { isObject } from '@resource-api/database/internal'
import type { Operation } from '@resource-api/http/internal'
import { exampleId } from '@resource-api/http/schemas'
import type { Batch } from '@resource-api/resources/internal'
import type { Static } from '@sinclair/typebox'
import { writePython, writeShell, writeTypeScript } from './code-values.ts'
import { getCredential, getFirstExample, toVariable } from './sample-requests.ts'

/** The version that the client package calls; the documents of other versions have no samples for it. */
export const CLIENT_VERSION = 1

export interface SampleContext {
  /** The URL of the service. */
  server: string
  /** The version of the document. */
  version: number
  /** The paths of all operations of the document. */
  urls: ReadonlySet<string>
}

export const createSampleContext = (
  operations: readonly Operation[],
  version: number,
  server: string,
): SampleContext => ({ server, version, urls: new Set(operations.map(({ url }) => url)) })

/** The parts of an operation that samples are written from. */
export type SampledOperation = Pick<
  Operation,
  'method' | 'url' | 'security' | 'parameters' | 'body' | 'x-export' | 'x-import'
>

/** What the reader replaces: a credential, or the id of a resource. */
const API_KEY = 'YOUR_API_KEY'
const ACCESS_TOKEN = 'YOUR_ACCESS_TOKEN'

/** Returns the fields of a value that are ids in the examples, such as `product_id`. */
function listIdFields(value: unknown, name = ''): string[] {
  if (value === exampleId) return [name]
  if (Array.isArray(value)) return value.flatMap((item) => listIdFields(item, name))
  if (!isObject(value)) return []
  return Object.entries(value).flatMap(([member, each]) => listIdFields(each, member))
}

/** Returns the fields of the example of a body that are ids. */
export const listExampleIdFields = (body: Operation['body']): string[] => [
  ...new Set(listIdFields(getFirstExample(body))),
]

/** Returns a value with placeholders for its ids. */
function insertPlaceholders(value: unknown, name = ''): unknown {
  if (value === exampleId) return name.toUpperCase()
  if (Array.isArray(value)) return value.map((item) => insertPlaceholders(item, name))
  if (!isObject(value)) return value
  return Object.fromEntries(
    Object.entries(value).map(([member, each]) => [member, insertPlaceholders(each, member)]),
  )
}

/** Returns the values of a path: `me` where the API accepts it, and otherwise a placeholder such as `PRODUCT_ID`. */
const listPathValues = ({ url, parameters }: SampledOperation): { name: string; value: string }[] =>
  [...url.matchAll(/\/([^/:]+)\/:(\w+)/g)].map(([, collection = '', name = '']) => {
    const parameter = parameters.find((each) => each.in === 'path' && each.name === name)
    const isCaller = parameter?.schema.examples?.[0] === 'me'
    return { name, value: isCaller ? 'me' : toVariable(collection).toUpperCase() }
  })

/** Returns a short query of a list: a filter by a state or a role, if it has one, and the order. */
function getListQuery({ parameters }: SampledOperation): Record<string, string[]> {
  const query = parameters.filter((parameter) => parameter.in === 'query')
  const isFilter = ({ name, schema }: (typeof query)[number]) =>
    schema.items?.enum && !['sort', 'order', 'fields', 'include'].includes(name)
  const sort = query.find(({ name }) => name === 'sort')
  const selected = [query.find(isFilter), sort].filter((parameter) => parameter !== undefined)
  return Object.fromEntries(selected.map(({ name, schema }) => [name, schema.examples?.[0] ?? []]))
}

/** Returns the query of an operation: that of a list, or the parameters without which it fails. */
const getQuery = (operation: SampledOperation): Record<string, string[]> =>
  isList(operation)
    ? getListQuery(operation)
    : Object.fromEntries(
        operation.parameters
          .filter((each) => each.in === 'query' && each.isRequired)
          .map(({ name, schema }) => [name, schema.examples?.[0] ?? []]),
      )

/** Returns the path of an operation with its values. */
const buildPath = (operation: SampledOperation) =>
  listPathValues(operation).reduce((url, { name, value }) => url.replace(`:${name}`, value), operation.url)

const buildSampleBody = ({ body }: SampledOperation) => insertPlaceholders(getFirstExample(body))

const isList = ({ method, parameters }: SampledOperation) =>
  method === 'GET' && parameters.some(({ name }) => name === 'cursor')

/**
 * Writes a curl command.
 * @param headers further header fields, such as `Idempotency-Key: cart-1042`
 */
export function writeCurl(
  operation: SampledOperation,
  server: string,
  headers: readonly string[] = [],
): string {
  const { method } = operation
  const query = Object.entries(getQuery(operation))
  const search = query.map(([name, values]) => `${name}=${values.join(',')}`).join('&')
  const credential = getCredential(operation)
  const body = buildSampleBody(operation)
  const type = method === 'PATCH' ? 'application/merge-patch+json' : 'application/json'
  return [
    `curl ${method === 'GET' ? '' : `-X ${method} `}"${server}${buildPath(operation)}${search && `?${search}`}"`,
    ...(credential === 'apiKey' ? [`-H "X-API-Key: ${API_KEY}"`] : []),
    ...(credential === 'bearer' ? [`-H "Authorization: Bearer ${ACCESS_TOKEN}"`] : []),
    ...headers.map((header) => `-H "${header}"`),
    ...(body === undefined ? [] : [`-H "Content-Type: ${type}"`, `-d ${writeShell(body)}`]),
  ].join(' \\\n  ')
}

/**
 * Writes the curl commands of an export and of an import, where an operation has them. Their language is another one than
 * that of curl, since the page shows the first sample of a language.
 */
function writeFileCommands({ body: _, ...operation }: SampledOperation, server: string) {
  const file = `${operation.url.split('/').at(-1)}.csv`
  const write = (header: string, option: string) =>
    `${writeCurl(operation, server, [header])} \\\n  ${option}`
  return [
    ...(operation['x-export']
      ? [{ lang: 'bash', label: 'Export', source: write('Accept: text/csv', `--fail -o ${file}`) }]
      : []),
    ...(operation['x-import']
      ? [
          {
            lang: 'bash',
            label: 'Import',
            source: write('Content-Type: text/csv', `--data-binary @${file}`),
          },
        ]
      : []),
  ]
}

export const toCamelCase = (name: string) =>
  name.replaceAll(/-(\w)/g, (_, letter: string) => letter.toUpperCase())

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

const BATCHES = `/api/v${CLIENT_VERSION}/batches`

/** Writes a batch with the client, whose example has creations only. In a body, `$n` is the id that operation n creates. */
function writeBatchCall(example: unknown): string {
  // It is the example of this schema.
  const { operations } = example as Static<ReturnType<typeof Batch>>
  const write = (value: unknown) => {
    const [, n] = /^\$(\d+)$/.exec(String(value)) ?? []
    return n === undefined ? JSON.stringify(value) : `operation${n}.id`
  }
  const calls = operations.map(({ path, body }, n) => {
    const member = getClientMember(`/api/v${CLIENT_VERSION}${path}`, [])
    const value = writeTypeScript(body, write)
    return `const operation${n} = client.${member}.batch.create(${value})`
  })
  const names = operations.map((_, n) => `operation${n}`).join(', ')
  return [...calls, `const results = await client.batch([${names}])`, 'console.log(results)'].join('\n')
}

/** Writes a call of the client: of the member for the collection, or of the path if there is none. */
function writeClientCall(operation: SampledOperation, urls: ReadonlySet<string>): string {
  const { method, url } = operation
  const collection = url.replace(/\/(?::id|aggregates)$/, '')
  const values = listPathValues(operation)
  const body = buildSampleBody(operation)
  if (url === BATCHES) return writeBatchCall(body)
  if (!urls.has(`${collection}/:id`)) {
    const path = Object.fromEntries(values.map(({ name, value }) => [name, value]))
    const options = { ...(values.length > 0 && { params: { path } }), ...(body !== undefined && { body }) }
    const args = [
      `"${url.replaceAll(/:(\w+)/g, '{$1}')}"`,
      ...(isObject(body) || values.length > 0 ? [writeTypeScript(options)] : []),
    ]
    return `const { data } = await client.http.${method}(${args.join(', ')})\nconsole.log(data)`
  }
  const parents = values.slice(0, collection.split('/:').length - 1).map(({ value }) => value)
  const member = `client.${getClientMember(collection, parents)}`
  if (isList(operation)) {
    const query = getListQuery(operation)
    return `const list = ${member}.list(${writeTypeScript(query)})\nfor await (const item of list) {\n  console.log(item)\n}`
  }
  if (url === `${collection}/aggregates`)
    return `const groups = await ${member}.aggregate(${writeTypeScript(getQuery(operation))})\nconsole.log(groups)`
  const id = collection === url ? [] : [`"${values.at(-1)?.value}"`]
  const args = [...id, ...(body === undefined ? [] : [writeTypeScript(body)])]
  // A change without credentials is the completion of a link in a mail.
  const isCompletion = method === 'PATCH' && getCredential(operation) === 'none'
  const call = `await ${member}.${isCompletion ? 'complete' : CALLS[method]}(${args.join(', ')})`
  return method === 'DELETE' ? call : `const item = ${call}\nconsole.log(item)`
}

const CLIENT_CREDENTIALS = {
  apiKey: `\n  apiKey: "${API_KEY}",`,
  bearer: '\n  signIn: { email: "YOUR_EMAIL", password: "YOUR_PASSWORD" },',
  none: '',
}

/** Writes a program with the client package. */
export const writeClientProgram = (
  operation: SampledOperation,
  { server, urls }: SampleContext,
) => `import { createClient } from "${identity.clientPackage}"

const client = createClient({
  baseUrl: "${server}",${CLIENT_CREDENTIALS[getCredential(operation)]}
})
${writeClientCall(operation, urls)}`

const PYTHON_HEADERS = {
  apiKey: `headers = {"X-API-Key": "${API_KEY}"}\n`,
  bearer: `headers = {"Authorization": "Bearer ${ACCESS_TOKEN}"}\n`,
  none: '',
}

/** Writes a program with `requests`. */
export function writePythonProgram(operation: SampledOperation, server: string): string {
  const { method } = operation
  const credential = getCredential(operation)
  const url = JSON.stringify(`${server}${buildPath(operation)}`)
  const headers = credential === 'none' ? '' : ', headers=headers'
  const start = `import requests\n\nurl = ${url}\n${PYTHON_HEADERS[credential]}`
  if (isList(operation)) {
    const query = Object.entries(getListQuery(operation)).map(([name, values]) => [name, values.join(',')])
    return `${start}query = ${writePython(Object.fromEntries(query))}
while True:
    response = requests.get(url${headers}, params=query)
    response.raise_for_status()
    page = response.json()
    print(page["data"])
    if not page["pagination"]["has_more"]:
        break
    query["cursor"] = page["pagination"]["cursor"]`
  }
  const required = Object.entries(getQuery(operation)).map(([name, values]) => [name, values.join(',')])
  const params = required.length === 0 ? '' : `, params=${writePython(Object.fromEntries(required))}`
  const body = buildSampleBody(operation)
  const json = body === undefined ? '' : `, json=${writePython(body)}`
  const print = method === 'DELETE' ? '' : '\nprint(response.json())'
  return `${start}response = requests.${method.toLowerCase()}(url${headers}${params}${json})
response.raise_for_status()${print}`
}

/** Returns the value of `x-codeSamples`. */
export const buildCodeSamples = (operation: SampledOperation, context: SampleContext) => [
  { lang: 'shell', label: 'curl', source: writeCurl(operation, context.server) },
  ...writeFileCommands(operation, context.server),
  ...(context.version === CLIENT_VERSION
    ? [{ lang: 'typescript', label: 'TypeScript', source: writeClientProgram(operation, context) }]
    : []),
  { lang: 'python', label: 'Python', source: writePythonProgram(operation, context.server) },
]
