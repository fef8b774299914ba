/** Registers the routes of collections in the scope of a version, and checks that they and their access fit. */
import { deriveKey, getCredentialRule, type RunConfig, registerGuards } from '@resource-api/http/internal'
import type { FastifyInstance, FastifyPluginAsync, RouteOptions } from 'fastify'
import fp from 'fastify-plugin'
import { batchMethods } from '../schemas/batches.ts'
import { findUnsetFields } from './check/required.ts'
import { AGGREGATES, type Collection, RESTORES, type ResourceDefinition } from './definition.ts'
import type { CollectionOptions } from './handlers.ts'
import type { CollectionOperation } from './operation.ts'
import {
  createOperationContext,
  type OperationContext,
  type VersionedResource,
} from './operations/context.ts'
import { createOtherStore } from './operations/other-store.ts'
import type { WriteOperation } from './operations/write-operation.ts'
import { WriteRoutes } from './operations/write-routes.ts'
import type { Resource } from './resource.ts'
import type { ResourcePaths } from './response/response-builder.ts'
import type { Row } from './store.ts'
import { findMappingMistakes } from './version-fields.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** The resources of the version, by their names. */
    versionedResources: ReadonlyMap<string, OperationContext>
    /** The writes of the version that batches can run. */
    writeRoutes: WriteRoutes
  }
}

/** A plugin that registers the routes of a collection. Its name, which `printPlugins` shows, is that of the collection. */
export type ResourcePlugin = FastifyPluginAsync & { collection: ResourceDefinition }

/**
 * Returns the plugin of a resource: a collection and its routes. The service reads the collection before it registers the
 * routes, because the collections refer to each other.
 * @param routes registers them: `app.get('/products', list(resource))`, with the resource in the version of the scope
 */
export function defineResource<R = Row, C = Record<string, unknown>, U = Record<string, unknown>>(
  collection: Collection<R, C, U>,
  routes: (app: FastifyInstance, resource: VersionedResource<R, C, U>) => Promise<void>,
): ResourcePlugin {
  const { name } = collection
  const plugin: FastifyPluginAsync = async (app) => {
    const resource = app.hasDecorator('versionedResources') && app.versionedResources.get(name)
    if (!resource)
      throw new Error(
        `${name}: its plugin is registered outside of a version, or it is in no list of resources`,
      )
    // Only the compiler has the types.
    await routes(app, resource as VersionedResource<R, C, U>)
  }
  Object.defineProperty(plugin, 'name', { value: name })
  return Object.assign(plugin, { collection })
}

interface RouteParts {
  method: string
  /** What makes its options. */
  call: string
  /** The usual end of its path. */
  end: string
  /** The option of the collection that declares it. */
  option: string
}

const toParts = (method: string, call: string, end: string, option = 'access'): RouteParts => ({
  ...{ method, call, end, option },
})

const ROUTES = new Map([
  ['list', toParts('GET', 'list(resource)', '')],
  ['read', toParts('GET', 'read(resource)', '/:id')],
  ['create', toParts('POST', 'create(resource)', '')],
  ['replace', toParts('PUT', 'replace(resource)', '/:id')],
  ['update', toParts('PATCH', 'update(resource)', '/:id')],
  ['remove', toParts('DELETE', 'remove(resource)', '/:id')],
  ['aggregate', toParts('GET', 'aggregate(resource)', `/${AGGREGATES}`, 'lists.aggregates')],
  [RESTORES, toParts('POST', 'restore(resource)', `/:id/${RESTORES}`, 'access.restore')],
])

/** Returns what the route of an operation has. Those without a place in the list are actions. */
const getParts = (name: string): RouteParts =>
  ROUTES.get(name) ?? toParts('POST', `action(resource, '${name}', ...)`, `/:id/${name}`, 'access.actions')

const writeCall = (method: string, path: string, call: string) =>
  `app.${method.toLowerCase()}('${path}', ${call})`

/** Returns the path of an operation beside the others of its collection, or by the names of the collections. */
const suggestPath = ({ collection }: ResourcePaths, { name, parent }: Resource, end: string) =>
  `${collection ?? `${parent ? `/${parent.to.name}/:${parent.member}` : ''}/${name}`}${end}`

/** Returns the names of the operations that a collection declares. */
const listDeclared = ({ aggregates, operations, verbs }: Resource): string[] => [
  ...verbs,
  ...(aggregates ? ['aggregate'] : []),
  ...Object.keys(operations),
]

type CollectionsOptions = Pick<
  RunConfig,
  'APP_SECRET' | 'EVENTS_RETENTION_DAYS' | 'PUBLIC_URL' | 'REQUIRE_IF_MATCH'
>

async function collections(app: FastifyInstance, settings: CollectionsOptions) {
  const { ownResources, resources } = app
  const options: CollectionOptions = {
    cursorKey: deriveKey(settings.APP_SECRET, 'cursors'),
    publicUrl: settings.PUBLIC_URL,
    requireIfMatch: settings.REQUIRE_IF_MATCH,
    retentionDays: settings.EVENTS_RETENTION_DAYS,
    isBatched: (resource) => ownResources.some(({ name }) => name === resource.name),
  }
  const { mappings, version } = app.resourceWriter
  const [wrongMapping] = findMappingMistakes(resources, mappings)
  if (wrongMapping !== undefined) throw new Error(`version ${version}: ${wrongMapping}`)
  const versioned = new Map<string, OperationContext>()
  app.decorate('versionedResources', versioned)
  app.decorate('writeRoutes', new WriteRoutes())
  for (const each of resources) {
    registerGuards(app, each)
    // The rule of the list, with credentials: figures cost more than a page.
    const rules = { ...each.access.list, anonymous: false }
    if (each.aggregates)
      app.guards.set(`${each.name}:aggregate`, { rules, credential: getCredentialRule(each, 'list') })
    const context = createOperationContext(app, options, each)
    versioned.set(each.name, context)
    each.openOtherStore ??= createOtherStore(context)
  }
  const registered = new Set<string>()

  /** Notes the route of a collection, from which links, batches and other operations follow. @throws Error */
  const addRoute = (
    route: RouteOptions,
    { context, name, code }: CollectionOperation,
    write?: WriteOperation,
  ) => {
    const { paths, resource } = context
    const { method, call, end, option } = getParts(name)
    const path = route.url.slice(app.prefix.length)
    const refuse = (fault: string) => {
      throw new Error(`${resource.name}: ${fault}`)
    }
    const { parent } = resource
    const parameters = [...(parent ? [`:${parent.member}`] : []), ...(end.startsWith('/:id') ? [':id'] : [])]
    const sent: string[] = path.match(/:\w+/g) ?? []
    const isFitting = sent.length === parameters.length && parameters.every((each) => sent.includes(each))
    if (route.method !== method || !isFitting) {
      const text = writeCall(method, isFitting ? path : suggestPath({}, resource, end), call)
      refuse(`the route ${route.method} ${route.url} does not fit; write ${text}`)
    }
    const access = `${resource.name}:${name}`
    if (registered.has(access)) refuse(`the route of "${name}" is registered twice`)
    registered.add(access)
    if (!listDeclared(resource).includes(name))
      refuse(`"${name}" has a route but no access; add it to \`${option}\``)

    if (name === 'list' || name === 'create') paths.collection = path
    else if (name === 'read' || (end === '/:id' && !paths.member)) paths.member = path
    Object.assign(resource.code, code)
    for (const part of Object.values({ ...code }))
      if ('locks' in part && part.locks) resource.code.locks = part.locks
    const batchMethod = batchMethods.find((each) => each === method)
    if (write && name !== RESTORES && batchMethod && options.isBatched(resource))
      app.writeRoutes.add(batchMethod, path, { context, operation: write, name, route })
  }

  app.addHook('onRoute', (route) => {
    const { allow, operation } = route.config ?? {}
    const { method, routePath, url } = route
    // Other methods of a path are 405.
    if (allow !== undefined) return
    if (!operation) {
      const call = writeCall(String(method), routePath, 'operation({ access, run })')
      throw new Error(`${method} ${url} is no operation; write ${call}`)
    }
    if (operation.isIdempotent && method !== 'POST' && method !== 'PATCH')
      throw new Error(`${method} ${url}: an idempotent operation is for POST and PATCH`)
    // The HEAD route that Fastify adds to one of GET is the same.
    if (operation.of && method !== 'HEAD') addRoute(route, operation.of, operation.write)
  })

  app.addHook('onReady', async () => {
    const missing = [...versioned.values()].flatMap(({ paths, resource }) =>
      listDeclared(resource)
        .filter((name) => !registered.has(`${resource.name}:${name}`))
        .map((name) => {
          const { method, call, end } = getParts(name)
          const text = writeCall(method, suggestPath(paths, resource, end), call)
          return `${resource.name}: "${name}" has access but no route; write ${text}, or remove it from \`access\``
        }),
    )
    const unset = resources
      .filter(({ name }) => registered.has(`${name}:create`))
      .flatMap((each) => [...findUnsetFields(each)].map((mistake) => `${each.name}: ${mistake}`))
    const mistakes = [...missing, ...unset]
    if (mistakes.length > 0) throw new Error(mistakes.join('\n'))
  })
}

export default fp(collections, { name: 'collections', dependencies: ['resources'] })
