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
  commonHeadersGuide,
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
import {
  buildCodeSamples,
  createSampleContext,
  listExampleIdFields,
  type SampleContext,
} from './code-samples.ts'
import { Components, createSchemaDocumenter, documentBody, type Json } from './document-schema.ts'
import { describeFailure, getFailureName } from './failures.ts'
import { getGuide } from './guide.ts'

export interface DocumentSettings {
  /** The absolute URL of the service. */
  server: string
  /** The groups of operations. */
  tags: readonly { name: string; description: string }[]
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
  samples: SampleContext
}

const healthTag = { name: 'health', description: 'Liveness and readiness checks' }

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
      'A JSON Web Token, verified according to RFC8725: the `access_token` in the response of `POST /tokens` with an e-mail ' +
      'address and a password. It is valid for `expires_in` seconds; `POST /tokens` with the `refresh_token` returns the next one.',
  },
}

const isUnversioned = ({ url }: Operation) => !url.startsWith('/api/')

/** Returns the operations of a version and the unversioned ones. */
export const selectOperations = (operations: readonly Operation[], version: number) =>
  operations.filter((operation) => operation.url.startsWith(`/api/v${version}/`) || isUnversioned(operation))

/**
 * Builds the document in turns of the event loop, which many resources would hold.
 * @param operations those of all versions; the document has the ones of its version and the unversioned ones
 */
export async function buildDocument(
  operations: readonly Operation[],
  version: Version,
  { server, tags, getWebhooks }: DocumentSettings,
): Promise<Json> {
  const { representation } = version
  const components = new Components()
  const documentSchema = createSchemaDocumenter(components, { hasSizes: true })
  const own = selectOperations(operations, representation.version)
  const samples = createSampleContext(own, representation.version, server)
  const context = { components, documentSchema, version, isVersioned: true, samples }
  const webhooks = await mapInTurns(Object.entries(getWebhooks(representation)), ([name, schema]) => [
    name,
    { post: buildOperation(readOperation({ method: 'POST', url: name }, schema, 'public'), context) },
  ])
  const isVersioned = (operation: Operation) => !isUnversioned(operation)
  const paths = await buildPaths([...own.filter(isVersioned), ...own.filter(isUnversioned)], context)
  const hasEvents = webhooks.length > 0
  const guide = getGuide({ ...samples, operations: own, about: representation.about, hasEvents })
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
      const samples = buildCodeSamples(operation, context.samples)
      return [
        method.toLowerCase(),
        { ...buildOperation(documented, { ...context, isVersioned }), 'x-codeSamples': samples },
      ]
    })
    const parameters = shared.map((each) => buildParameter(each, context))
    const path = url.replaceAll(/:(\w+)/g, '{$1}')
    return [path, { ...(shared.length > 0 && { parameters }), ...Object.fromEntries(item) }]
  })
  return Object.fromEntries(paths)
}

const isDeprecated = ({ version, isVersioned }: Context) => isVersioned && version.deprecated !== undefined

/** Says which ids of the example have to be replaced. */
function describeIds(body: Operation['body']): string | undefined {
  const fields = listExampleIdFields(body).map((field) => `\`${field}\``)
  return fields.length === 0
    ? undefined
    : `The example has ids that do not exist: replace the value of ${fields.join(' and ')}.`
}

function buildOperation(
  {
    method: _,
    url: __,
    access: ___,
    isInCollections: ____,
    security,
    parameters,
    body,
    responses,
    failures,
    ...rest
  }: Operation,
  context: Context,
): Json {
  const deprecated = isDeprecated(context)
  const errors = deprecated ? [...failures, 410] : failures
  const ids = describeIds(body)
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
      ...Object.fromEntries(errors.map((status) => [status, buildFailure(status, context)])),
    },
  }
}

/** Returns a parameter, or the reference to one that several operations have. */
function buildParameter(
  { in: location, name, isRequired, component, schema: { description, examples, ...schema } }: Parameter,
  { components, documentSchema }: Context,
): Json {
  const value = examples?.[0] ?? schema.default ?? schema.enum?.[0]
  const parameter = {
    in: location,
    name,
    ...(isRequired && { required: true }),
    description,
    // The page shows the example of an optional parameter, but sends it only if the user selects it.
    ...(isRequired ? { example: value } : { examples: { example: { value, 'x-disabled': true } } }),
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
  const references = Object.entries(examples).map(([name, example]) => [
    name.slice(name.indexOf('.') + 1),
    components.add('examples', name, { ...example }),
  ])
  return Object.fromEntries(
    types.map((type, i) => [
      type,
      { schema: documented, ...(i === 0 && { examples: Object.fromEntries(references) }) },
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

/** Returns the reference to an error response: the operations of a version share them. */
function buildFailure(status: number, context: Context): Json {
  const name = getFailureName(status)
  return context.components.addOnce('responses', context.isVersioned ? name : `${name}Unversioned`, () => {
    const failure = describeFailure(status, context.version.representation)
    // A 406 is always application/json, since no media type in Accept can be served.
    return buildResponse(failure, context, status === 406 ? ['application/json'] : undefined)
  })
}

function buildResponse(
  { description, headers, content }: DocumentedResponse,
  context: Context,
  types = getMediaTypes(context),
): Json {
  const all = { ...headers, ...(isDeprecated(context) && pickHeaders(...DEPRECATION_HEADERS)) }
  const references = Object.entries(all).map(([name, header]) => [
    name,
    context.components.add('headers', name, { ...header, schema: context.documentSchema(header.schema) }),
  ])
  return {
    description,
    ...(references.length > 0 && { headers: Object.fromEntries(references) }),
    ...(content && { content: buildContent(content['application/json'], types, context) }),
  }
}
