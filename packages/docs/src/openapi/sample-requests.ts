/** Builds the sample requests of a version from its operations. The collections of Postman and Bruno contain them. */

import { identity } from '@resource-api/database'
import { getBuiltInName } from '@resource-api/database/application'
import { isObject, staff } from '@resource-api/database/internal'
import { type Content, type Operation, type Parameter, toPascalCase } from '@resource-api/http/internal'

export type SampleRequest = ReturnType<typeof buildRequest>
export type SampleParameter = SampleRequest['query'][number]
export type Samples = ReturnType<typeof buildSamples>

/** The operation whose response has the access token of the requests behind it. */
const SIGN_IN = 'createToken'

/** The folder of the DELETE requests. */
const DELETE_FOLDER = 'delete'

/** The resources whose fields are credentials. */
const CREDENTIAL_RESOURCES = ['user', 'token']

/** Their fields that take the value of a variable: the user who is created signs in with them. */
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
  const adapted = Object.entries(value).map(([name, field]) => {
    const isId = typeof field === 'string' && ID_VALUE.test(field) && /(^|_)id$/.test(name)
    const credential = CREDENTIAL_RESOURCES.includes(resource) ? CREDENTIAL_FIELDS.get(name) : undefined
    const variable = credential ?? (isId && (name === 'id' ? `${resource}_id` : name))
    return [name, variable ? `{{${variable}}}` : adaptBody(field, resource)]
  })
  // Not every role may manage webhook endpoints.
  const isNewUser = resource === 'user' && 'password' in value && !('current_password' in value)
  return { ...Object.fromEntries(adapted), ...(isNewUser && { role: staff[0] ?? 'admin' }) }
}

export const getFirstExample = (content: Content | undefined): unknown =>
  Object.values(content?.examples ?? {})[0]?.value

/** Returns the variables that are set from the response, with the path of the value in its body. */
function getCaptures({ operationId, responses }: Operation, resource: string) {
  // No request creates an event.
  if (operationId === `list${toPascalCase(getBuiltInName('events'))}`)
    return [{ variable: 'event_id', path: 'data[0].id' }]
  if (responses[201] === undefined) return []
  if (operationId !== SIGN_IN) return [{ variable: `${resource}_id`, path: 'data.id' }]
  // The envelope depends on the version.
  const example = getFirstExample(responses[201].content?.['application/json'])
  const isTyped = isObject(example) && isObject(example.data) && isObject(example.data.attributes)
  return ['access_token', 'session_id'].map((variable) => ({
    variable,
    path: `data.${isTyped ? 'attributes.' : ''}${variable}`,
  }))
}

/** Returns the credential that a sample of an operation has. */
export function getCredential({ security }: Pick<Operation, 'security'>) {
  if (security.some((scheme) => 'apiKey' in scheme)) return 'apiKey'
  return security.some((scheme) => 'bearer' in scheme) ? 'bearer' : 'none'
}

/** Returns the optional parameters, which are listed but not sent. */
const selectParameters = ({ parameters }: Operation, location: Parameter['in']) =>
  parameters
    .filter((parameter) => parameter.in === location)
    .map(({ name, schema: { description = '', examples, default: initial, enum: values } }) => ({
      name,
      value: String(examples?.[0] ?? initial ?? values?.[0] ?? ''),
      description: String(description),
    }))

/** Returns the variable with the id of a resource: `webhook_endpoint_id` for `webhook-endpoints`. */
export const toVariable = (collection = '') =>
  `${collection.replaceAll('-', '_').replace(/ies$/, 'y').replace(/s$/, '')}_id`

function buildRequest(operation: Operation) {
  const { operationId, method, url, summary, description = '' } = operation
  const resource = getResourceName(operationId)
  const body = adaptBody(getFirstExample(operation.body), resource)
  return {
    name: summary,
    description,
    method,
    /** Here and in the body, `{{name}}` stands for a variable. */
    path: url.replaceAll(
      /\/([^/]+)\/:\w+/g,
      (_, collection) => `/${collection}/{{${toVariable(collection)}}}`,
    ),
    query: selectParameters(operation, 'query'),
    headers: selectParameters(operation, 'header'),
    body: body === undefined ? undefined : JSON.stringify(body, null, 2),
    credential: getCredential(operation),
    captures: getCaptures(operation, resource),
  } as const
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
  const sorted = operations.toSorted((a, b) => getRank(a) - getRank(b))
  return [...sorted.filter((operation) => !isDelete(operation)), ...sorted.filter(isDelete).reverse()]
}

/** Puts the requests into folders: one for each group of operations, creations first, and one for all that delete. */
function groupRequests(operations: readonly Operation[]) {
  const folders = new Map<string, SampleRequest[]>()
  for (const operation of operations) {
    const name = operation.method === 'DELETE' ? DELETE_FOLDER : (operation.tags[0] ?? '')
    folders.set(name, [...(folders.get(name) ?? []), buildRequest(operation)])
  }
  const isOther = ({ method }: SampleRequest) => Number(method !== 'POST')
  return [...folders].map(([name, requests]) => ({
    name,
    requests: requests.toSorted((a, b) => isOther(a) - isOther(b)),
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
export const buildSamples = (operations: readonly Operation[], version: number, server: string) => ({
  name: `${identity.title} v${version}`,
  description: DESCRIPTION,
  /** The variables with their initial values; the user sets `api_key`. */
  variables: [
    { name: 'base_url', value: server },
    { name: 'api_key', value: '' },
    { name: 'email', value: 'ada@example.com' },
    { name: 'password', value: 'twelve brass cogs, turning' },
  ],
  folders: groupRequests(orderOperations(operations.filter((each) => each.isInCollections))),
})
