/** Adapts the OpenAPI document of a version to the documentation page. */
import { toWords } from '@resource-api/api/documents'
import { mapInTurns } from '@resource-api/database/concurrency'
import { isObject } from '@resource-api/database/values'
import { documentedFormats, type Json, LINE, LINES } from './document-schema.ts'

const listMembers = (value: unknown) => Object.entries(isObject(value) ? value : {})

const omit = (object: unknown, ...names: readonly string[]): Json =>
  Object.fromEntries(listMembers(object).filter(([name]) => !names.includes(name)))

const mapMembers = (value: unknown, map: (member: unknown, name: string) => unknown): Json =>
  Object.fromEntries(listMembers(value).map(([name, each]) => [name, map(each, name)]))

const mapMembersInTurns = async (value: unknown, map: (member: unknown) => unknown): Promise<Json> =>
  Object.fromEntries(await mapInTurns(listMembers(value), ([name, each]) => [name, map(each)]))

/** Returns the title of a group of operations: `API keys` for `api-keys`. */
const getDisplayName = (name: string) => toWords(name).replace(/^./, (first) => first.toUpperCase())

/** Adds the title that Scalar shows instead of the name. */
const withDisplayName = (tag: unknown) =>
  isObject(tag) ? { ...tag, 'x-displayName': getDisplayName(String(tag.name)) } : tag

const getParameters = (value: unknown): unknown[] =>
  isObject(value) && Array.isArray(value.parameters) ? value.parameters : []

/**
 * Returns a response with one media type. The schemas of the others are the same, and Scalar would put the list to choose
 * from into the button that opens the response: a control within a control, which screen readers cannot reach.
 */
function toPageResponse(response: unknown): unknown {
  if (!isObject(response) || !isObject(response.content)) return response
  return { ...response, content: Object.fromEntries(listMembers(response.content).slice(0, 1)) }
}

/**
 * Returns the operations of a path. Each has the parameters that all of them share: Scalar shows neither the types nor the
 * descriptions of references at the path. The errors that every operation can have are in the guide.
 */
function toPagePath(path: unknown): Json {
  const shared = getParameters(path)
  return mapMembers(omit(path, 'parameters'), (operation) => ({
    ...(isObject(operation) && operation),
    parameters: [...shared, ...getParameters(operation)],
    ...(isObject(operation) && {
      responses: mapMembers(omit(operation.responses, 'default'), toPageResponse),
    }),
  }))
}

const ALL_TYPES = ['null', 'boolean', 'number', 'string', 'array', 'object']

const SCHEMA_PATH = '#/components/schemas/'

/** Returns the JSON types of a schema's values. */
function getTypes(schema: unknown, schemas: unknown): string[] {
  if (!isObject(schema)) return ALL_TYPES
  if (typeof schema.$ref === 'string') {
    return getTypes(isObject(schemas) && schemas[schema.$ref.slice(SCHEMA_PATH.length)], schemas)
  }
  if (schema.type !== undefined) return [schema.type].flat().map(String)
  if (Array.isArray(schema.allOf)) return getTypes(schema.allOf[0], schemas)
  if (!Array.isArray(schema.oneOf)) return ALL_TYPES
  return [...new Set(schema.oneOf.flatMap((each) => getTypes(each, schemas)))]
}

/** The other keywords whose values are a schema or a list of them. */
const PARTS = ['additionalProperties', 'oneOf', 'allOf']

/** The names of the formats that the documents express as regular expressions. */
const formatNames = new Map<unknown, string>(
  Object.entries(documentedFormats).map(([name, { pattern }]) => [pattern, name]),
)

/**
 * Replaces regular expressions that the documents have instead of words: by the name of the format, or by nothing if they
 * exclude control characters only.
 */
function hidePattern(schema: Json): Json {
  const { pattern, ...rest } = schema
  if (pattern === undefined || pattern === LINE || pattern === LINES) return rest
  const format = formatNames.get(pattern)
  return format === undefined ? schema : { ...rest, format }
}

/** Returns the schema of the items of a list. Scalar shows values twice if a reference leads to them. */
function inlineValues(items: unknown, schemas: unknown): unknown {
  if (!isObject(items) || typeof items.$ref !== 'string') return items
  const target = isObject(schemas) && schemas[items.$ref.slice(SCHEMA_PATH.length)]
  return isObject(target) && target.enum ? omit(target, 'title', 'description') : items
}

/** Names a single value as such: Scalar shows it twice if it is the only one of a list. */
function toConstant(schema: Json): Json {
  if (!Array.isArray(schema.enum) || schema.enum.length !== 1) return schema
  return { ...omit(schema, 'enum'), const: schema.enum[0] }
}

/**
 * Returns a schema as the page shows it. All its parts have a `type`: Scalar adds an internal mark to those that have none;
 * it loses the mark of parts to which several references lead, and then reports the schema as invalid.
 */
function adaptSchema(schema: unknown, schemas: unknown): unknown {
  const adapt = (part: unknown) => adaptSchema(part, schemas)
  if (Array.isArray(schema)) return schema.map(adapt)
  if (!isObject(schema) || schema.$ref !== undefined) return schema
  const types = getTypes(schema, schemas)
  const convert = (value: unknown, keyword: string) => {
    if (keyword === 'properties') return mapMembers(value, adapt)
    if (keyword === 'items') return adapt(inlineValues(value, schemas))
    return PARTS.includes(keyword) ? adapt(value) : value
  }
  const type = types.length === 1 ? types[0] : types
  return { ...mapMembers(toConstant(hidePattern(schema)), convert), type }
}

/**
 * Returns a document with links to the sections of the guide as the page has them: `(#v1/description/exports)`, and without
 * the link to the page itself.
 */
const toPageLinks = (document: Json, version: number): Json =>
  JSON.parse(
    JSON.stringify(document)
      .replaceAll('](#', `](#v${version}/description/`)
      .replace(/the \[documentation page\]\([^()]*\)/, 'this page'),
  )

/** Returns a copy of a document for the page. In turns of the event loop, which many resources would hold. */
export async function toPageDocument(given: Json, version: number): Promise<Json> {
  const document = toPageLinks(given, version)
  const { schemas, parameters, responses, ...components } = Object(document.components)
  const adapt = (schema: unknown) => adaptSchema(schema, schemas)
  return {
    ...omit(document, 'externalDocs'),
    info: omit(document.info, 'contact', 'license'),
    tags: Array.isArray(document.tags) ? document.tags.map(withDisplayName) : [],
    paths: await mapMembersInTurns(document.paths, toPagePath),
    ...(isObject(document.webhooks) && { webhooks: await mapMembersInTurns(document.webhooks, toPagePath) }),
    components: {
      ...components,
      responses: mapMembers(responses, toPageResponse),
      schemas: await mapMembersInTurns(schemas, adapt),
      parameters: await mapMembersInTurns(parameters, (parameter) =>
        isObject(parameter) ? { ...parameter, schema: adapt(parameter.schema) } : parameter,
      ),
    },
  }
}
