/** Builds the sample requests of a version from its operations. The collections of Postman and Bruno contain them. */
import { identity } from '../../../lib/identity.ts'
import { isObject } from '../../../lib/is-object.ts'
import type { Content, Operation, Parameter } from '../operation.ts'

export interface SampleParameter {
  name: string
  value: string
  description: string
}

export interface SampleRequest {
  name: string
  description: string
  method: string
  /** The path; `{{name}}` stands for a variable, here and in the body. */
  path: string
  /** Optional parameters, which are listed but not sent. */
  query: SampleParameter[]
  headers: SampleParameter[]
  /** The JSON text of the body. */
  body?: string
  credential: 'apiKey' | 'bearer' | 'none'
  /** Variables that are set from the response, with the path of the value in its body. */
  captures: { variable: string; path: string }[]
}

interface Folder {
  name: string
  requests: SampleRequest[]
}

export interface Samples {
  name: string
  description: string
  /** The variables with their initial values; the user sets `api_key`. */
  variables: { name: string; value: string }[]
  folders: Folder[]
}

/** The operation whose response has the access token of the requests behind it. */
const SIGN_IN = 'createToken'

/** The variable for the first resource of a list, where no request creates one. */
const LIST_CAPTURES: ReadonlyMap<string, string> = new Map([['listEvents', 'event_id']])

/** The folder of the DELETE requests. */
const DELETE_FOLDER = 'delete'

/** Fields that take the value of a variable: the user who is created signs in with them. */
const CREDENTIAL_FIELDS = new Map([
  ['email', 'email'],
  ['password', 'password'],
  ['current_password', 'password'],
])

const ID_VALUE = /^[\da-f]{8}-/

/** Returns the name of the resource in an operationId: `user_profile` for `createUserProfile`. */
const getResourceName = (operationId: string) =>
  operationId
    .replace(/^[a-z]+/, '')
    .replaceAll(/(?!^)[A-Z]/g, '_$&')
    .toLowerCase()

/** Returns an example body in which variables replace ids and credentials. */
function adaptBody(value: unknown, resource: string): unknown {
  if (Array.isArray(value)) return value.map((item) => adaptBody(item, resource))
  if (!isObject(value)) return value
  const adapt = ([name, field]: [string, unknown]): [string, unknown] => {
    const variable = CREDENTIAL_FIELDS.get(name)
    if (variable !== undefined) return [name, `{{${variable}}}`]
    const isId = typeof field === 'string' && ID_VALUE.test(field)
    if (isId && name === 'id') return [name, `{{${resource}_id}}`]
    if (isId && name.endsWith('_id')) return [name, `{{${name}}}`]
    return [name, adaptBody(field, resource)]
  }
  const adapted = Object.fromEntries(Object.entries(value).map(adapt))
  // Members may not manage webhook endpoints.
  return resource === 'user' && 'password' in value && !('current_password' in value)
    ? { ...adapted, role: 'manager' }
    : adapted
}

const getFirstExample = (content: Content | undefined): unknown =>
  Object.values(content?.examples ?? {})[0]?.value

/** Returns the path of a field of the resource in the example of a response, whose envelope depends on the version. */
function findField(operation: Operation, field: string): string {
  const example = getFirstExample(operation.responses[201]?.content?.['application/json'])
  const isTyped = isObject(example) && isObject(example.data) && isObject(example.data.attributes)
  return isTyped && field !== 'id' ? `data.attributes.${field}` : `data.${field}`
}

function getCaptures(operation: Operation, resource: string): SampleRequest['captures'] {
  const listed = LIST_CAPTURES.get(operation.operationId)
  if (listed !== undefined) return [{ variable: listed, path: 'data[0].id' }]
  if (operation.responses[201] === undefined) return []
  const fields = operation.operationId === SIGN_IN ? ['access_token', 'session_id'] : ['id']
  return fields.map((field) => ({
    variable: field === 'id' ? `${resource}_id` : field,
    path: findField(operation, field),
  }))
}

function getCredential({ security }: Operation): SampleRequest['credential'] {
  if (security.some((scheme) => 'apiKey' in scheme)) return 'apiKey'
  return security.some((scheme) => 'bearer' in scheme) ? 'bearer' : 'none'
}

const selectParameters = ({ parameters }: Operation, location: Parameter['in']): SampleParameter[] =>
  parameters
    .filter((parameter) => parameter.in === location)
    .map(({ name, schema: { description = '', examples, default: initial, enum: values } }) => ({
      name,
      value: String(examples?.[0] ?? initial ?? values?.[0] ?? ''),
      description,
    }))

/** Returns the variable with the id of a resource: `webhook_endpoint_id` for `webhook-endpoints`. */
const toVariable = (collection: string) =>
  `${collection.replaceAll('-', '_').replace(/ies$/, 'y').replace(/s$/, '')}_id`

/** Replaces the parameters of a path by the variables of the collections before them. */
const fillIds = (url: string) =>
  url
    .split('/')
    .map((segment, i, all) => (segment.startsWith(':') ? `{{${toVariable(all[i - 1] ?? '')}}}` : segment))
    .join('/')

function buildRequest(operation: Operation): SampleRequest {
  const { method, url } = operation
  const resource = getResourceName(operation.operationId)
  const body = adaptBody(getFirstExample(operation.body), resource)
  return {
    name: operation.summary,
    description: operation.description ?? '',
    method,
    path: fillIds(url),
    query: selectParameters(operation, 'query'),
    headers: selectParameters(operation, 'header'),
    ...(body !== undefined && { body: JSON.stringify(body, null, 2) }),
    credential: getCredential(operation),
    captures: getCaptures(operation, resource),
  }
}

/**
 * Orders the operations so that all requests succeed on an empty database if they run in this order: a user is created
 * before the sign-in, and what is created is deleted last, in reverse order.
 */
function orderOperations(operations: readonly Operation[]): Operation[] {
  const isDelete = ({ method }: Operation) => method === 'DELETE'
  const getRank = (operation: Operation) => {
    if (operation.operationId === SIGN_IN) return 1
    return getCredential(operation) === 'bearer' ? 2 : 0
  }
  const sorted = [...operations].sort((a, b) => getRank(a) - getRank(b))
  return [...sorted.filter((operation) => !isDelete(operation)), ...sorted.filter(isDelete).reverse()]
}

/** Puts the requests into folders: one for each group of operations, creations first, and one for all that delete. */
function groupRequests(operations: readonly Operation[]): Folder[] {
  const folders = new Map<string, SampleRequest[]>()
  for (const operation of operations) {
    const name = operation.method === 'DELETE' ? DELETE_FOLDER : (operation.tags[0] ?? '')
    const requests = folders.get(name) ?? []
    requests.push(buildRequest(operation))
    folders.set(name, requests)
  }
  const isCreation = ({ method }: SampleRequest) => method === 'POST'
  return [...folders].map(([name, requests]) => ({
    name,
    requests: [...requests.filter(isCreation), ...requests.filter((request) => !isCreation(request))],
  }))
}

const DESCRIPTION = `
Set the variable \`api_key\` to the key of an admin. A run of the whole collection succeeds on an empty database: requests
that create a resource keep its id in a variable for those that follow, and the folder "${DELETE_FOLDER}" removes everything.
The user that the collection creates signs in with \`email\` and \`password\`; requests that need a Bearer token use the token.
`.trim()

/**
 * Builds the sample requests of a version.
 * @param operations those of the version and the unversioned ones
 * @param server the URL of the service
 */
export function buildSamples(operations: readonly Operation[], version: number, server: string): Samples {
  return {
    name: `${identity.title} v${version}`,
    description: DESCRIPTION,
    variables: [
      { name: 'base_url', value: server },
      { name: 'api_key', value: '' },
      { name: 'email', value: 'ada@example.com' },
      { name: 'password', value: 'twelve brass cogs, turning' },
    ],
    folders: groupRequests(orderOperations(operations)),
  }
}
