/** Builds the OpenAPI document of a version from the operations of the routes. */
import { isDeepStrictEqual } from 'node:util'
import { identity } from '../../lib/identity.ts'
import { isObject } from '../../lib/is-object.ts'
import type { Version } from '../versioning/index.ts'
import type { Representation } from '../versioning/representation/types.ts'
import { buildCodeSamples } from './code-samples.ts'
import { type Components, createComponents, type Json } from './components.ts'
import { describeFailure, getFailureName } from './failures.ts'
import { getGuide } from './guide.ts'
import { commonHeadersGuide, DEPRECATION_HEADERS, type HeaderName, headers } from './headers.ts'
import type { Content, Operation, OperationResponse, Parameter } from './operation.ts'

export interface DocumentedRoute {
  method: string
  url: string
  operation: Operation
}

export interface DocumentSettings {
  /** The release of the service. */
  release: string
  /** The absolute URL of the service. */
  server: string
  /** The groups of operations. */
  tags: readonly { name: string; description: string }[]
  /** Returns the requests that the service sends, by name. */
  getWebhooks(representation: Representation): Readonly<Record<string, Operation>>
}

/** What the functions below share. */
interface Context {
  /** The components that they add to. */
  components: Components
  version: Version
  /** Whether the addresses of the operations belong to the version. */
  isVersioned: boolean
  server: string
}

const healthTag = { name: 'health', description: 'Liveness and readiness checks' }

/** The credentials of the API; operations refer to them by name. */
const securitySchemes = {
  apiKey: {
    type: 'apiKey',
    in: 'header',
    name: 'X-API-Key',
    description:
      'An API key of a user, limited to its scopes. Create one with `POST /api-keys` and a Bearer token.',
  },
  bearer: {
    type: 'http',
    scheme: 'bearer',
    bearerFormat: 'JWT',
    description:
      'A JSON Web Token, verified according to RFC8725: the `access_token` in the response of `POST /tokens` with an e-mail ' +
      'address and a password. ' +
      'It is valid for `expires_in` seconds; `POST /tokens` with the `refresh_token` returns the next one.',
  },
}

/** The credentials of operations that do not name theirs: an API key or a Bearer token. */
const COMMON_SECURITY = [{ apiKey: [] }, { bearer: [] }]

const isOfVersion = ({ url }: DocumentedRoute, version: number) => url.startsWith(`/api/v${version}/`)
const isUnversioned = ({ url }: DocumentedRoute) => !url.startsWith('/api/')

/** Returns the routes of a version and the unversioned ones. */
export const selectRoutes = (routes: readonly DocumentedRoute[], version: number) =>
  routes.filter((route) => isOfVersion(route, version) || isUnversioned(route))

/** @param routes those of all versions; the document has the ones of its version and the unversioned ones */
export function buildDocument(
  routes: readonly DocumentedRoute[],
  version: Version,
  { release, server, tags, getWebhooks }: DocumentSettings,
): Json {
  const { representation } = version
  const components = createComponents()
  const versioned = routes.filter((route) => isOfVersion(route, representation.version))
  const unversioned = routes.filter(isUnversioned)
  const paths = {
    ...buildPaths(versioned, { components, version, isVersioned: true, server }),
    ...buildPaths(unversioned, { components, version, isVersioned: false, server }),
  }
  const context = { components, version, isVersioned: true, server }
  const webhooks = Object.entries(getWebhooks(representation)).map(([name, operation]) => [
    name,
    { post: buildOperation(operation, context) },
  ])
  const hasEvents = webhooks.length > 0
  const guide = getGuide({ version: representation.version, about: representation.about, hasEvents })
  return {
    openapi: '3.1.0',
    info: {
      title: identity.title,
      version: release,
      summary: `Version ${representation.version} of the API`,
      description: `${guide}\n\n${commonHeadersGuide}`,
      // No person is the contact of every installation, so this is the start page of the service itself.
      contact: { name: 'The operator of this service', url: `${server}/` },
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: [{ url: server }],
    externalDocs: { description: 'The documentation page', url: `${server}/docs` },
    tags: [...tags, healthTag].map(({ name, description }) => ({ name, description })),
    paths,
    ...(hasEvents && { webhooks: Object.fromEntries(webhooks) }),
    security: COMMON_SECURITY,
    components: { ...components.getAll(), securitySchemes },
  }
}

function buildPaths(routes: readonly DocumentedRoute[], context: Context): Json {
  const paths: Record<string, Json> = {}
  for (const { method, url, operation } of routes) {
    const path = url.replaceAll(/:(\w+)/g, '{$1}')
    paths[path] = { ...paths[path], [method.toLowerCase()]: buildOperation(operation, context) }
  }
  return Object.fromEntries(Object.entries(paths).map(([path, item]) => [path, shareParameters(item)]))
}

const getParameters = (operation: unknown): unknown[] =>
  isObject(operation) && Array.isArray(operation.parameters) ? operation.parameters : []

/** Moves the parameters that all operations of a path have, such as its ids, from the operations to the path. */
function shareParameters(item: Json): Json {
  const operations = Object.entries(item)
  const [[, first] = [], ...others] = operations
  const isShared = (parameter: unknown) =>
    others.every(([, other]) => getParameters(other).some((each) => isDeepStrictEqual(each, parameter)))
  const shared = getParameters(first).filter(isShared)
  if (others.length === 0 || shared.length === 0) return item
  const withoutShared = operations.map(([method, operation]) => {
    const parameters = getParameters(operation).filter(
      (parameter) => !shared.some((each) => isDeepStrictEqual(each, parameter)),
    )
    return [method, { ...(isObject(operation) && operation), parameters }]
  })
  return { parameters: shared, ...Object.fromEntries(withoutShared) }
}

const isDeprecated = ({ version, isVersioned }: Context) => isVersioned && version.deprecated !== undefined

function buildOperation(
  { security = [], parameters, body, responses, failures, ...rest }: Operation,
  context: Context,
): Json {
  const deprecated = isDeprecated(context)
  const errors = deprecated ? [...failures, 410] : failures
  const { operationId } = rest
  const { version } = context.version.representation
  const samples = buildCodeSamples(
    { operationId, ...(parameters && { parameters }) },
    context.server,
    version,
  )
  return {
    ...rest,
    ...(deprecated && { deprecated }),
    ...(samples && { 'x-codeSamples': samples }),
    ...(!isDeepStrictEqual(security, COMMON_SECURITY) && { security }),
    ...(parameters && { parameters: parameters.map((parameter) => buildParameter(parameter, context)) }),
    ...(body && { requestBody: { required: true, content: buildContent(body, body.types, context) } }),
    responses: {
      ...Object.fromEntries(
        Object.entries(responses).map(([status, response]) => [status, buildSuccess(response, context)]),
      ),
      ...Object.fromEntries(errors.map((status) => [status, buildFailure(status, context)])),
    },
  }
}

/** Returns the reference to a parameter. */
function buildParameter(
  { component, in: location, name, schema: { description, examples, ...schema } }: Parameter,
  { components }: Context,
): Json {
  const value = examples?.[0] ?? schema.default ?? schema.enum?.[0]
  return components.addParameter(component, {
    in: location,
    name,
    ...(location === 'path' && { required: true }),
    description,
    // The page shows the example of an optional parameter, but sends it only if the user selects it.
    ...(location === 'path' ? { example: value } : { examples: { example: { value, 'x-disabled': true } } }),
    // Lists are sent as `name=a,b`; the default of OpenAPI is `name=a&name=b`.
    ...(schema.type === 'array' && { explode: false }),
    schema: components.extractSchemas(schema),
  })
}

/** Builds a body. Only the first media type has examples, to keep the document small: the others have the same bodies. */
function buildContent(
  { schema, examples }: Content,
  types: readonly string[],
  { components }: Context,
): Json {
  const documented = components.extractSchemas(schema)
  const references = examples.map(({ name, key, summary, value }): [string, Json] => [
    key,
    components.addExample(`${name}.${key}`, { ...(summary !== undefined && { summary }), value }),
  ])
  return Object.fromEntries(
    types.map((type, i) => [
      type,
      { schema: documented, ...(i === 0 && { examples: Object.fromEntries(references) }) },
    ]),
  )
}

function getMediaTypes({ version, isVersioned }: Context): string[] {
  const { version: number } = version.representation
  return ['application/json', ...(isVersioned ? [`application/vnd.api+json;version=${number}`] : [])]
}

/** Returns a response, or the reference to one that several operations have. */
function buildSuccess({ component, ...response }: OperationResponse, context: Context): Json {
  const build = () => buildResponse(response, context)
  return component === undefined ? build() : context.components.addResponse(component, build)
}

/** Returns the reference to an error response: the operations of a version share them. */
function buildFailure(status: number, context: Context): Json {
  const name = getFailureName(status)
  return context.components.addResponse(context.isVersioned ? name : `${name}Unversioned`, () => {
    const failure = describeFailure(status, context.version.representation)
    // A 406 is always application/json, since no media type in Accept can be served.
    const types = status === 406 ? ['application/json'] : getMediaTypes(context)
    return buildResponse(failure, context, types)
  })
}

function buildResponse(
  { description, headers: own = [], content }: OperationResponse,
  context: Context,
  types = getMediaTypes(context),
): Json {
  const names = [...own, ...(isDeprecated(context) ? DEPRECATION_HEADERS : [])]
  const refer = (name: HeaderName) => context.components.addHeader(name, () => ({ ...headers[name] }))
  return {
    description,
    ...(names.length > 0 && { headers: Object.fromEntries(names.map((name) => [name, refer(name)])) }),
    ...(content && { content: buildContent(content, types, context) }),
  }
}
