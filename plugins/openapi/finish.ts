/** Post-processes the document of @fastify/swagger: shared components, headers, media types and parameter examples. */
import { STATUS_CODES } from 'node:http'
import { isObject } from '../../lib/is-object.ts'
import { createComponentExtractor, createComponents, type Json } from './components.ts'
import { type Header, type HeaderName, headers } from './headers.ts'
import { OPTIONAL } from './replies.ts'

export interface FinishOptions {
  /** The second media type of responses; undefined without content negotiation. */
  vendorType: string | undefined
  deprecated: boolean
}

const isHeader = (name: string): name is HeaderName => name in headers

const toObject = (value: unknown): Json => (isObject(value) ? value : {})

const getEntries = (value: unknown): [string, Json][] =>
  Object.entries(toObject(value)).map(([name, each]) => [name, toObject(each)])

const LOCATIONS = ['path', 'query', 'header']
const compareByLocation = (a: Json, b: Json) =>
  LOCATIONS.indexOf(String(a.in)) - LOCATIONS.indexOf(String(b.in))

/** The example of an optional parameter: the page shows it, but sends it only if the user selects it. */
const toUnselectedExample = (value: unknown): Json => ({ value, 'x-disabled': true })

/** Creates the post-processor of one document, which converts paths and collects their shared components. */
export function createPostProcessor() {
  const schemas = createComponents('schemas')
  const responses = createComponents('responses')
  const headerComponents = createComponents('headers')
  const extractComponents = createComponentExtractor(schemas)

  const convertContent = (content: unknown): Json =>
    Object.fromEntries(
      getEntries(content).map(([type, each]) => [type, { ...each, schema: extractComponents(each.schema) }]),
    )

  const convertHeader = (name: string, isOptional: boolean) => {
    if (!isHeader(name)) throw new Error(`The header ${name} is not described in headers.ts`)
    const { required = false, ...header }: Header = headers[name]
    return [
      name,
      isOptional && required
        ? headerComponents.refer(`${name}-Optional`, {
            ...header,
            description: `${header.description}; if known`,
          })
        : headerComponents.refer(name, { ...headers[name] }),
    ]
  }

  const convertResponse = (
    status: string,
    { headers: names, content, ...rest }: Json,
    options: FinishOptions,
  ) => {
    const deprecationHeaders = options.deprecated ? ['Deprecation', 'Sunset', 'Link'] : []
    const isVersioned = 'API-Version' in toObject(names)
    const headerNames = new Set([...Object.keys(toObject(names)), ...(isVersioned ? deprecationHeaders : [])])
    const contentByType = convertContent(content)
    const json = toObject(contentByType['application/json'])
    // A 406 is always application/json, since no media type in Accept can be served.
    const hasVendorType = options.vendorType && status !== '406'
    const isOptional = (header: string) =>
      // A request may be rejected before the deprecation headers are set.
      (deprecationHeaders.includes(header) && Number(status) >= 400) ||
      toObject(toObject(toObject(names)[header]).schema)[OPTIONAL] === true
    const converted = {
      ...rest,
      headers: Object.fromEntries(
        [...headerNames].map((header) => convertHeader(header, isOptional(header))),
      ),
      ...(content
        ? {
            content: hasVendorType
              ? { ...contentByType, [options.vendorType ?? '']: { schema: json.schema } }
              : contentByType,
          }
        : {}),
    }
    if (Number(status) < 400) return converted
    const name = (STATUS_CODES[status] ?? '').replaceAll(/[^A-Za-z]/g, '')
    return responses.refer(options.vendorType ? name : `${name}Unversioned`, converted)
  }

  const convertParameter = ({ schema, example, ...rest }: Json) => {
    const { default: defaultValue, enum: allowed, type } = toObject(schema)
    const value = example ?? defaultValue ?? (Array.isArray(allowed) ? allowed[0] : undefined)
    return {
      ...rest,
      ...(value === undefined
        ? {}
        : rest.required
          ? { example: value }
          : { examples: { example: toUnselectedExample(value) } }),
      // Lists are sent as `name=a,b`; the default of OpenAPI is `name=a&name=b`.
      ...(rest.in === 'query' && type === 'array' ? { style: 'form', explode: false } : {}),
      schema: extractComponents(schema),
    }
  }

  const convertOperation = (
    { parameters, requestBody, responses: responsesByStatus, security, ...rest }: Json,
    options: FinishOptions,
  ) => ({
    ...rest,
    ...(options.deprecated ? { deprecated: true } : {}),
    security: security ?? [],
    ...(Array.isArray(parameters)
      ? { parameters: parameters.map(toObject).sort(compareByLocation).map(convertParameter) }
      : {}),
    ...(requestBody
      ? { requestBody: { required: true, content: convertContent(toObject(requestBody).content) } }
      : {}),
    responses: Object.fromEntries(
      getEntries(responsesByStatus).map(([status, each]) => [status, convertResponse(status, each, options)]),
    ),
  })

  return {
    paths: (document: Json, options: FinishOptions): Json =>
      Object.fromEntries(
        getEntries(document.paths).map(([path, item]) => [
          path,
          Object.fromEntries(
            getEntries(item).map(([method, each]) => [method, convertOperation(each, options)]),
          ),
        ]),
      ),
    components: () => ({
      schemas: schemas.all(),
      responses: responses.all(),
      headers: headerComponents.all(),
    }),
  }
}
