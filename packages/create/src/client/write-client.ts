/** Writes the TypeScript of a client from the OpenAPI document of version 1: its types, and a member for each collection. */
import openapiTypescript, { astToString, COMMENT_HEADER } from 'openapi-typescript'

interface Schema {
  $ref?: string
}

interface Operation {
  operationId?: string
  tags?: readonly string[]
  responses?: Record<string, { content?: Record<string, { schema?: Schema }> }>
}

/** What is read of a document here. */
export interface Document {
  openapi: string
  tags?: { name: string; description?: string }[]
  'x-tagGroups'?: { tags: readonly string[] }[]
  paths: Record<string, Partial<Record<'get' | 'post' | 'patch', Operation>>>
}

/** Returns the types of a document, as openapi-typescript writes them. */
export async function writeTypes(document: Document): Promise<string> {
  // Each call gets its own: openapi-typescript changes the object.
  const nodes = await openapiTypescript(JSON.stringify(document), { silent: true })
  return `${COMMENT_HEADER}${astToString(nodes)}`
}

const toCamelCase = (name: string) => name.replace(/[-_](\w)/g, (_, letter: string) => letter.toUpperCase())

/** The calls that a collection may have: an action of such a name has that of its path. */
const CALLS = [
  ...['list', 'get', 'create', 'replace', 'update', 'edit', 'delete', 'restore', 'aggregate'],
  ...['export', 'exportStream', 'batch', 'import', 'createSecret', 'stream'],
]

/** The last segments of paths that every client has calls for. */
const COMMON_ACTIONS = ['restores', 'secrets']

/**
 * Returns the paths of the actions of a collection, by the names of their calls: `refundOrder` of an order is `refund`, other
 * operations have their whole name.
 */
function listActions({ paths }: Document, path: string): [name: string, path: string][] {
  const singular = (paths[`${path}/{id}`]?.get?.operationId ?? '').replace(/^get/, '')
  return Object.entries(paths).flatMap(([each, { post }]): [string, string][] => {
    const segment = each.startsWith(`${path}/{id}/`) ? each.slice(`${path}/{id}/`.length) : ''
    if (!post || !/^[\w-]+$/.test(segment) || COMMON_ACTIONS.includes(segment)) return []
    const { operationId = '' } = post
    const isOfOne = singular !== '' && operationId.endsWith(singular) && operationId !== singular
    const name = isOfOne ? operationId.slice(0, -singular.length) : operationId
    return [[/^[a-z]\w*$/.test(name) && !CALLS.includes(name) ? name : toCamelCase(segment), each]]
  })
}

/** Returns the paths of the collections that batches and imports do not write: those whose tag is not beside that of batches. */
function listUnbatched(document: Document, paths: readonly string[]): string[] {
  const [tag = ''] = document.paths['/api/v1/batches']?.post?.tags ?? []
  const batched = document['x-tagGroups']?.find(({ tags }) => tags.includes(tag))?.tags ?? []
  return paths.filter((path) => {
    const { get, post, patch } = { ...document.paths[`${path}/{id}`], ...document.paths[path] }
    return !batched.includes((get ?? post ?? patch)?.tags?.[0] ?? '')
  })
}

const writeObject = (entries: readonly (readonly [string, string])[]) =>
  `{ ${entries.map(([name, value]) => `${name}: ${value}`).join(', ')} }`

const writeActions = (document: Document, path: string): [string, string][] => {
  const actions = listActions(document, path).map(([name, each]) => [name, `'${each}'`] as const)
  return actions.length > 0 ? [['actions', writeObject(actions)]] : []
}

const COLLECTION = /^\/api\/v1\/([\w-]+)$/
const NESTED = /^(\/api\/v1\/[\w-]+)\/\{\w+\}\/([\w-]+)$/

/** Returns what a collection has besides the calls of one. */
function getKind({ paths }: Document, path: string): string | undefined {
  if (!paths[`${path}/{id}`]?.get && !paths[path]?.get) return 'links'
  if (paths[`${path}/{id}/secrets`]?.post) return 'secrets'
  const page = paths[path]?.get?.responses?.[200]?.content?.['application/json']?.schema?.$ref
  // The feed of events may have another name, but its schema has this one in every application.
  return page?.endsWith('/EventPage') ? 'events' : undefined
}

function writeMember(document: Document, path: string, name: string, nested: readonly string[]): string {
  const kind = getKind(document, path)
  const below = nested.map((each) => {
    const actions = writeActions(document, each)
    const value = actions.length > 0 ? writeObject([['path', `'${each}'`], ...actions]) : `'${each}'`
    return [toCamelCase(NESTED.exec(each)?.[2] ?? ''), value] as const
  })
  const properties = [
    ['path', `'${path}'`],
    ...(below.length > 0 ? [['nested', writeObject(below)] as const] : []),
    ...writeActions(document, path),
    ...(kind ? [['kind', `'${kind}'`] as const] : []),
  ] as const
  const description = document.tags?.find((tag) => tag.name === name)?.description
  const comment = description ? `  /** ${description.replaceAll('*/', '*').replaceAll(/\s+/g, ' ')} */\n` : ''
  return `${comment}  ${toCamelCase(name)}: ${writeObject(properties)},\n`
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
  const unbatched = listUnbatched(
    document,
    paths.filter((path) => getKind(document, path) !== 'links'),
  )
    .map((path) => `'${path}'`)
    .join(' | ')
  return `import type * as engine from '${engine}'
import { createApiClient } from '${engine}'
${imports}
/** The collections, by the members of the client. */
const members = {
${members.join('')}} as const

/** The collections that batches and imports do not write. */
type Unbatched = ${unbatched || 'never'}

/** A client of the API. */
export type Client = engine.ApiClient<paths, typeof members, Unbatched>

/** The paths of the collections. */
export type CollectionPath = engine.CollectionPath<paths>

/** The calls of a collection. */
export type Collection<P extends CollectionPath> = engine.Collection<paths, P, Unbatched>

/** A resource, with these of its fields and with related resources. */
export type Resource<
  P extends CollectionPath,
  Fields extends engine.FieldName<paths, P> = engine.FieldName<paths, P>,
  Relations extends engine.RelationName<paths, P> = never,
> = engine.Resource<paths, P, Fields, Relations>

/** Returns a client. Sends no request. */
export const createClient = (options: engine.ClientOptions): Client =>
  createApiClient<paths, typeof members, Unbatched>(options, members)
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
