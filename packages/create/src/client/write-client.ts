/** Writes the TypeScript of a client from the OpenAPI document of version 1: its types, and a member for each collection. */
import openapiTypescript, { astToString, COMMENT_HEADER } from 'openapi-typescript'

interface Schema {
  $ref?: string
}

interface Operation {
  responses?: Record<string, { content?: Record<string, { schema?: Schema }> }>
}

/** What is read of a document here. */
export interface Document {
  openapi: string
  tags?: { name: string; description?: string }[]
  paths: Record<string, Partial<Record<'get' | 'post' | 'patch', Operation>>>
}

/** Returns the types of a document, as openapi-typescript writes them. */
export async function writeTypes(document: Document): Promise<string> {
  // Each call gets its own: openapi-typescript changes the object.
  const nodes = await openapiTypescript(JSON.stringify(document), { silent: true })
  return `${COMMENT_HEADER}${astToString(nodes)}`
}

const toCamelCase = (name: string) => name.replace(/[-_](\w)/g, (_, letter: string) => letter.toUpperCase())

const COLLECTION = /^\/api\/v1\/([\w-]+)$/
const NESTED = /^(\/api\/v1\/[\w-]+)\/\{\w+\}\/([\w-]+)$/

/** Returns what a collection has besides the calls of one. */
function getKind({ paths }: Document, path: string): string | undefined {
  if (paths[`${path}/{id}`]?.get === undefined) return 'links'
  if (paths[`${path}/{id}/secrets`]?.post) return 'secrets'
  const page = paths[path]?.get?.responses?.[200]?.content?.['application/json']?.schema?.$ref
  // The feed of events may have another name, but its schema has this one in every application.
  return page?.endsWith('/EventPage') ? 'events' : undefined
}

function writeMember(document: Document, path: string, name: string, nested: readonly string[]): string {
  const kind = getKind(document, path)
  const below = nested.map((each) => `${toCamelCase(NESTED.exec(each)?.[2] ?? '')}: '${each}'`)
  const properties = [
    `path: '${path}'`,
    ...(below.length > 0 ? [`nested: { ${below.join(', ')} }`] : []),
    ...(kind ? [`kind: '${kind}'`] : []),
  ]
  const description = document.tags?.find((tag) => tag.name === name)?.description
  const comment = description ? `  /** ${description.replaceAll('*/', '*').replaceAll(/\s+/g, ' ')} */\n` : ''
  return `${comment}  ${toCamelCase(name)}: { ${properties.join(', ')} },\n`
}

/**
 * Returns the code of `createClient`, which follows the types of the document.
 * @param engine the module with the parts that all clients share
 * @param imports further imports
 */
export function writeMembers(document: Document, engine: string, imports = ''): string {
  const isCollection = (path: string) => `${path}/{id}` in document.paths
  const paths = Object.keys(document.paths).filter(isCollection)
  const members = paths.flatMap((path) => {
    const name = COLLECTION.exec(path)?.[1]
    if (name === undefined) return []
    return writeMember(
      document,
      path,
      name,
      paths.filter((each) => NESTED.exec(each)?.[1] === path),
    )
  })
  return `import type * as engine from '${engine}'
import { createApiClient } from '${engine}'
${imports}
/** The collections, by the members of the client. */
const members = {
${members.join('')}} as const

/** A client of the API. */
export type Client = engine.ApiClient<paths, typeof members>

/** The paths of the collections. */
export type CollectionPath = engine.CollectionPath<paths>

/** The calls of a collection. */
export type Collection<P extends CollectionPath> = engine.Collection<paths, P>

/** A resource, with these of its fields and with related resources. */
export type Resource<
  P extends CollectionPath,
  Fields extends engine.FieldName<paths, P> = engine.FieldName<paths, P>,
  Relations extends engine.RelationName<paths, P> = never,
> = engine.Resource<paths, P, Fields, Relations>

/** Returns a client. Sends no request. */
export const createClient = (options: engine.ClientOptions): Client =>
  createApiClient<paths, typeof members>(options, members)
`
}

/** Returns the whole module that an application has. */
export async function writeClient(document: Document): Promise<string> {
  const types = await writeTypes(document)
  const engine = '@resource-api/client/engine'
  return `// Written by \`npx resource-api client\`. Run it again after a change of the API.
// biome-ignore-all lint: generated
// biome-ignore-all assist: generated
// biome-ignore-all format: generated
/* eslint-disable */
${writeMembers(document, engine)}
export * from '${engine}'

${types}`
}
