/** Builds the OpenAPI document of a version from the operations of the routes. */
import { STATUS_CODES } from 'node:http'
import type { Version } from '../versioning/index.ts'
import { buildCodeSamples } from './code-samples.ts'
import { type Components, createComponents, type Json } from './components.ts'
import { describeFailure } from './failures.ts'
import { getGuide } from './guide.ts'
import {
  COMMON_HEADERS,
  DEPRECATION_HEADERS,
  type Header,
  type HeaderName,
  headers,
  VERSION_HEADERS,
} from './headers.ts'
import type { Content, Operation, OperationResponse } from './operation.ts'

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
}

/** What the functions below share: the components they add to, and the version; undefined outside all versions. */
interface Context {
  components: Components
  version: Version | undefined
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
      'The `access_token` in the response of `POST /tokens` with an e-mail address and a password. ' +
      'It is valid for `expires_in` seconds; `POST /tokens` with the `refresh_token` returns the next one.',
  },
}

const isOfVersion = ({ url }: DocumentedRoute, version: number) => url.startsWith(`/api/v${version}/`)
const isUnversioned = ({ url }: DocumentedRoute) => !url.startsWith('/api/')

/** Returns the routes of a version and the unversioned ones. */
export const selectRoutes = (routes: readonly DocumentedRoute[], version: number) =>
  routes.filter((route) => isOfVersion(route, version) || isUnversioned(route))

/** @param routes those of all versions; the document has the ones of its version and the unversioned ones */
export function buildDocument(
  routes: readonly DocumentedRoute[],
  version: Version,
  { release, server, tags }: DocumentSettings,
): Json {
  const { representation } = version
  const components = createComponents()
  const versioned = routes.filter((route) => isOfVersion(route, representation.version))
  const unversioned = routes.filter(isUnversioned)
  const paths = {
    ...buildPaths(versioned, { components, version, server }),
    ...buildPaths(unversioned, { components, version: undefined, server }),
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'resource-api',
      version: release,
      summary: `Version ${representation.version} of the API`,
      description: getGuide(representation.version, representation.about),
      // No person is the contact of every installation, so this is the start page of the service itself.
      contact: { name: 'The operator of this service', url: `${server}/` },
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: [{ url: server }],
    externalDocs: { description: 'The documentation page', url: `${server}/docs` },
    tags: [...tags, healthTag].map(({ name, description }) => ({ name, description })),
    paths,
    components: { ...components.getAll(), securitySchemes },
  }
}

function buildPaths(routes: readonly DocumentedRoute[], context: Context): Json {
  const paths: Record<string, Json> = {}
  for (const { method, url, operation } of routes) {
    const path = url.replaceAll(/:(\w+)/g, '{$1}')
    paths[path] = { ...paths[path], [method.toLowerCase()]: buildOperation(operation, context) }
  }
  return paths
}

function buildOperation(
  { security = [], parameters, body, responses, failures, ...rest }: Operation,
  context: Context,
): Json {
  const deprecated = context.version?.deprecated !== undefined
  const errors = deprecated ? [...failures, 410] : failures
  const samples = buildCodeSamples(rest.operationId, context.server, context.version?.representation.version)
  return {
    ...rest,
    ...(deprecated && { deprecated }),
    ...(samples && { 'x-codeSamples': samples }),
    security,
    ...(parameters && { parameters: buildParameters(parameters, context) }),
    ...(body && { requestBody: { required: true, content: buildContent(body, body.types, context) } }),
    responses: {
      ...Object.fromEntries(
        Object.entries(responses).map(([status, response]) => [status, buildResponse(response, context)]),
      ),
      ...Object.fromEntries(errors.map((status) => [status, buildFailure(status, context)])),
    },
  }
}

const buildParameters = (parameters: NonNullable<Operation['parameters']>, { components }: Context) =>
  Object.entries(parameters).flatMap(([location, schemas]) =>
    Object.entries(schemas).map(([name, { description, examples, ...schema }]) => ({
      in: location,
      name,
      required: location === 'path',
      description,
      ...buildParameterExample(location, examples?.[0] ?? schema.default ?? schema.enum?.[0]),
      // Lists are sent as `name=a,b`; the default of OpenAPI is `name=a&name=b`.
      ...(schema.type === 'array' && { style: 'form', explode: false }),
      schema: components.extractSchemas(schema),
    })),
  )

function buildParameterExample(location: string, value: unknown): Json {
  if (value === undefined) return {}
  // The page shows the example of an optional parameter, but sends it only if the user selects it.
  return location === 'path' ? { example: value } : { examples: { example: { value, 'x-disabled': true } } }
}

/** Only the first media type has the examples, to keep the document small. */
function buildContent(
  { schema, examples }: Content,
  types: readonly string[],
  { components }: Context,
): Json {
  const documented = components.extractSchemas(schema)
  return Object.fromEntries(
    types.map((type, i) => [type, i === 0 ? { schema: documented, examples } : { schema: documented }]),
  )
}

function getMediaTypes({ version }: Context): string[] {
  const vendorTypes = version ? [`application/vnd.api+json;version=${version.representation.version}`] : []
  return ['application/json', ...vendorTypes]
}

/** Returns the reference to an error response: the operations of a version share them. */
function buildFailure(status: number, context: Context): Json {
  const name = `${STATUS_CODES[status]}`.replaceAll(/[^A-Za-z]/g, '')
  return context.components.addResponse(context.version ? name : `${name}Unversioned`, () => {
    const failure = describeFailure(status, context.version?.representation)
    // A request may be rejected before the deprecation headers are set.
    const optionalHeaders = [...(failure.optionalHeaders ?? []), ...DEPRECATION_HEADERS]
    // A 406 is always application/json, since no media type in Accept can be served.
    const types = status === 406 ? ['application/json'] : getMediaTypes(context)
    return buildResponse({ ...failure, optionalHeaders }, context, types)
  })
}

function buildResponse(
  { description, headers: own = [], optionalHeaders = [], content }: OperationResponse,
  context: Context,
  types = getMediaTypes(context),
): Json {
  const { components, version } = context
  const names = new Set([
    ...COMMON_HEADERS,
    ...(version ? VERSION_HEADERS : []),
    ...own,
    ...(version?.deprecated ? DEPRECATION_HEADERS : []),
  ])
  return {
    description,
    headers: Object.fromEntries(
      [...names].map((name) => [name, buildHeader(name, optionalHeaders.includes(name), components)]),
    ),
    ...(content && { content: buildContent(content, types, context) }),
  }
}

/** Returns the reference to a header. Its component is required, unless some responses lack the header. */
function buildHeader(name: HeaderName, isOptional: boolean, { addHeader }: Components): Json {
  const { required = false, ...header }: Header = headers[name]
  if (!isOptional || !required) return addHeader(name, () => ({ ...headers[name] }))
  return addHeader(`${name}-Optional`, () => ({ ...header, description: `${header.description}; if known` }))
}
