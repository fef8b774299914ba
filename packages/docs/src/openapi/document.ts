/**
 * Builds the OpenAPI document of a version from the schemas of its routes. @fastify/swagger 9.9.3 was tried with a
 * `transform`: without named parameters, responses, headers and examples the document had 4.3 MB instead of 0.27 MB, and
 * it drops examples of bodies and headers, `explode` and the parameters of paths.
 */

import { isDeepStrictEqual } from 'node:util'
import { identity } from '@resource-api/database'
import { getBuiltInName } from '@resource-api/database/application'
import { mapInTurns, release } from '@resource-api/database/internal'
import {
  COMMON_SECURITY,
  type Content,
  DEPRECATION_HEADERS,
  type DocumentedResponse,
  type Operation,
  type Parameter,
  pickHeaders,
  type Representation,
  readOperation,
} from '@resource-api/http/internal'
import type { Version } from '@resource-api/http/versions'
import type { FastifySchema } from 'fastify'
import { CLIENT_VERSION, LIST_QUERY, listExampleIdFields, writeClientProgram } from './code-samples.ts'
import { Components, createSchemaDocumenter, documentBody, type Json } from './document-schema.ts'
import { describeFailure, describeOtherFailures } from './failures.ts'
import { getGuide } from './guide.ts'

interface Tag {
  name: string
  description: string
}

export interface DocumentSettings {
  /** The absolute URL of the service. */
  server: string
  /** The tags by the titles of their groups. */
  tagGroups: Readonly<Record<string, readonly Tag[]>>
  /** Who may access what, in Markdown. */
  accessTables: string
  /** Whether the service has tools for agents. */
  hasAgents: boolean
  /** Returns the requests that the service sends, by name. */
  getWebhooks(representation: Representation): Readonly<Record<string, FastifySchema>>
}

/** What the functions below share. */
interface Context {
  /** The components that they add to. */
  components: Components
  documentSchema: (schema: unknown) => unknown
  version: Version
  /** Whether the addresses of the operations belong to the version. */
  isVersioned: boolean
  server: string
  /** The paths of all operations. */
  urls: ReadonlySet<string>
}

/** The credentials of the API; operations refer to them by name. */
const securitySchemes = {
  apiKey: {
    type: 'apiKey',
    in: 'header',
    name: 'X-API-Key',
    description: `An API key of a user, limited to its scopes. Create one with \`POST /${getBuiltInName('api-keys')}\` and a Bearer token.`,
  },
  bearer: {
    type: 'http',
    scheme: 'bearer',
    bearerFormat: 'JWT',
    description:
      'A JSON Web Token, verified according to RFC8725: the `access_token` in the response of `POST /tokens` with an email ' +
      'address and a password. It is valid for `expires_in` seconds; `POST /tokens` with the `refresh_token` returns the next one.',
  },
}

const isUnversioned = ({ url }: Operation) => !url.startsWith('/api/')

/** Returns the operations of a version and the unversioned ones. */
const selectOperations = (operations: readonly Operation[], version: number) =>
  operations.filter((operation) => operation.url.startsWith(`/api/v${version}/`) || isUnversioned(operation))

/**
 * Builds the document in turns of the event loop, which many resources would hold.
 * @param operations those of all versions; the document has the ones of its version and the unversioned ones
 */
export async function buildDocument(
  operations: readonly Operation[],
  version: Version,
  { server, tagGroups, accessTables, hasAgents, getWebhooks }: DocumentSettings,
): Promise<Json> {
  const { representation } = version
  const components = new Components()
  const documentSchema = createSchemaDocumenter(components, { hasSizes: true })
  const own = selectOperations(operations, representation.version)
  const urls = new Set(own.map(({ url }) => url))
  const context = { components, documentSchema, version, isVersioned: true, server, urls }
  const webhooks = await mapInTurns(Object.entries(getWebhooks(representation)), ([name, schema]) => [
    name,
    { post: buildOperation(readOperation({ method: 'POST', url: name }, schema, 'public'), context) },
  ])
  const versioned = own.filter((operation) => !isUnversioned(operation))
  const paths = await buildPaths([...versioned, ...own.filter(isUnversioned)], context)
  const hasEvents = webhooks.length > 0
  const guide = { server, operations: own, ...representation, hasEvents, hasAgents, accessTables }
  const health = { name: 'health', description: 'Liveness and readiness checks' }
  const groups = Object.entries({ ...tagGroups, Service: [health] })
  return {
    openapi: '3.1.0',
    info: {
      title: identity.title,
      version: release,
      summary: `Version ${representation.version} of the API`,
      description: await getGuide(guide),
      // No person is the contact of every installation, so this is the start page of the service itself.
      contact: { name: 'The operator of this service', url: `${server}/` },
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: [{ url: server }],
    externalDocs: { description: 'The documentation page', url: `${server}/docs` },
    tags: groups.flatMap(([, tags]) => tags.map(({ name, description }) => ({ name, description }))),
    'x-tagGroups': groups.map(([name, tags]) => ({ name, tags: tags.map((tag) => tag.name) })),
    paths,
    ...(hasEvents && { webhooks: Object.fromEntries(webhooks) }),
    security: COMMON_SECURITY,
    components: { ...components.getAll(), securitySchemes },
  }
}

/** Builds the paths. The parameters that all operations of a path have, such as its ids, stand at the path. */
async function buildPaths(operations: readonly Operation[], context: Context): Promise<Json> {
  const byUrl = new Map<string, Operation[]>()
  for (const operation of operations)
    byUrl.set(operation.url, [...(byUrl.get(operation.url) ?? []), operation])
  const paths = await mapInTurns(byUrl, ([url, own]) => {
    const includes = (all: readonly Parameter[], parameter: Parameter) =>
      all.some((each) => isDeepStrictEqual(each, parameter))
    const shared = (own[0]?.parameters ?? []).filter(
      (parameter) => own.length > 1 && own.every((operation) => includes(operation.parameters, parameter)),
    )
    const item = own.map((operation) => {
      const { method, parameters: all, body } = operation
      const documented = {
        ...operation,
        parameters: all.filter((each) => !includes(shared, each)),
        ...(body && { body: { ...body, schema: documentBody(body.schema) } }),
      }
      const isVersioned = !isUnversioned(operation)
      return [
        method.toLowerCase(),
        { ...buildOperation(documented, { ...context, isVersioned }), ...buildSample(operation, context) },
      ]
    })
    const parameters = shared.map((each) => buildParameter(each, context))
    const path = url.replaceAll(/:(\w+)/g, '{$1}')
    return [path, { ...(shared.length > 0 && { parameters }), ...Object.fromEntries(item) }]
  })
  return Object.fromEntries(paths)
}

/** Returns the sample with the client package, if callers can get one, for the version that it calls. */
function buildSample(operation: Operation, { server, urls, version }: Context) {
  if (identity.clientPackage === undefined || version.representation.version !== CLIENT_VERSION) return {}
  const program = writeClientProgram(operation, server, urls)
  const source = `// Not in the npm registry: see "TypeScript client" in the introduction.\n${program}`
  return { 'x-codeSamples': [{ lang: 'typescript', label: 'TypeScript', source }] }
}

const isDeprecated = ({ version, isVersioned }: Context) => isVersioned && version.deprecated !== undefined

/** Says which ids of the example have to be replaced. */
function describeIds(body: Operation['body']): string | undefined {
  const fields = listExampleIdFields(body).map((field) => `\`${field}\``)
  return fields.length === 0
    ? undefined
    : `The example has ids that do not exist: replace the value of ${fields.join(' and ')}.`
}

function buildOperation(operation: Operation, context: Context): Json {
  const { method, url, access, conflicts, messages, ...documented } = operation
  const { security, parameters, body, responses, failures, ...rest } = documented
  const deprecated = isDeprecated(context)
  const errors = deprecated ? [...failures, 410] : failures
  // The reader sends no webhooks, whose URL is a name.
  const isSent = url.startsWith('/')
  const ids = isSent ? describeIds(body) : undefined
  return {
    ...rest,
    ...(deprecated && { deprecated }),
    ...(!isDeepStrictEqual(security, COMMON_SECURITY) && { security }),
    ...(parameters.length > 0 && {
      parameters: parameters.map((parameter) => buildParameter(parameter, context)),
    }),
    ...(body && {
      requestBody: {
        ...(ids !== undefined && { description: ids }),
        required: true,
        content: buildContent(body, body.types, context),
      },
    }),
    responses: {
      ...Object.fromEntries(
        Object.entries(responses).map(([status, response]) => [status, buildSuccess(response, context)]),
      ),
      ...Object.fromEntries(errors.map((status) => [status, buildFailure(status, operation, context)])),
      ...(isSent && { default: buildOtherFailures(context) }),
    },
  }
}

/** Returns a parameter, or the reference to one that several operations have. */
function buildParameter(
  { in: location, name, isRequired, component, schema: { description, examples, ...schema } }: Parameter,
  { components, documentSchema }: Context,
): Json {
  const value = examples?.[0] ?? schema.default ?? schema.enum?.[0]
  const isShown = LIST_QUERY.includes(name)
  const parameter = {
    in: location,
    name,
    ...(isRequired && { required: true }),
    description,
    // The page shows the example of an optional parameter, but sends others only if the user selects them.
    ...(isRequired ? { example: value } : { examples: { example: { value, 'x-disabled': !isShown } } }),
    // Lists are sent as `name=a,b`; the default of OpenAPI is `name=a&name=b`.
    ...(schema.type === 'array' && { explode: false }),
    schema: documentSchema(schema),
  }
  return component === undefined ? parameter : components.add('parameters', component, parameter)
}

/** Builds a body. Only the first media type has examples, to keep the document small: the others have the same bodies. */
function buildContent(
  { schema, examples = {} }: Content,
  types: readonly string[],
  { components, documentSchema }: Context,
): Json {
  const documented = documentSchema(schema)
  const shown = Object.entries(examples).map(([name, example]) => {
    const [, own] = name.split('.', 2)
    return own === undefined ? [name, example] : [own, components.add('examples', name, { ...example })]
  })
  return Object.fromEntries(
    types.map((type, i) => [
      type,
      { schema: documented, ...(i === 0 && { examples: Object.fromEntries(shown) }) },
    ]),
  )
}

const getMediaTypes = ({ version, isVersioned }: Context): string[] => {
  const typed = `application/vnd.api+json;version=${version.representation.version}`
  return ['application/json', ...(isVersioned ? [typed] : [])]
}

/** Returns a response, or the reference to one that several operations have. */
function buildSuccess(response: DocumentedResponse, context: Context): Json {
  const { 'x-component': component } = response
  const built = buildResponse(response, context)
  return component === undefined ? built : context.components.add('responses', component, built)
}

/** Returns the reference to an error response. Operations with the same examples share it. */
function buildFailure(status: number, operation: Operation, context: Context): Json {
  const { name, response } = describeFailure(status, operation, context.version.representation)
  const full = context.isVersioned ? name : `${name}Unversioned`
  return context.components.add('responses', full, buildResponse(response, context))
}

/** Returns the reference to the response of all errors that do not depend on the operation. */
const buildOtherFailures = (context: Context): Json =>
  context.components.addOnce('responses', context.isVersioned ? 'OtherError' : 'OtherErrorUnversioned', () =>
    buildResponse(describeOtherFailures(context.version.representation), context),
  )

function buildResponse({ description, headers, content }: DocumentedResponse, context: Context): Json {
  const all = { ...headers, ...(isDeprecated(context) && pickHeaders(...DEPRECATION_HEADERS)) }
  const references = Object.entries(all).map(([name, header]) => [
    name,
    context.components.add('headers', name, { ...header, schema: context.documentSchema(header.schema) }),
  ])
  return {
    description,
    ...(references.length > 0 && { headers: Object.fromEntries(references) }),
    ...(content && { content: buildContent(content['application/json'], getMediaTypes(context), context) }),
  }
}
