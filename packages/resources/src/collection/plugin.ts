/** Gives the routes of collections, in the scope of a version, what only the version decides: their schemas and handlers. */
import { deriveKey, getCredentialRule, type RunConfig, registerGuards } from '@resource-api/http/internal'
import type { FastifyInstance, FastifyPluginAsync, RouteOptions } from 'fastify'
import fp from 'fastify-plugin'
import { batchMethods } from '../schemas/batches.ts'
import { findUnsetFields } from './check/required.ts'
import { AGGREGATES, RESTORES, type ResourceDefinition } from './definition.ts'
import type { CollectionOptions } from './handlers.ts'
import { createOperationContext, type OperationContext } from './operations/context.ts'
import { WriteRoutes } from './operations/write-routes.ts'
import operations, { completeRoute } from './operations.ts'
import type { Resource } from './resource.ts'
import type { CollectionRoute } from './routes.ts'
import { findMappingMistakes } from './version-fields.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** The writes of the version that batches can run. */
    writeRoutes: WriteRoutes
  }
}

/** A plugin that registers the routes of a collection. Its name, which `printPlugins` shows, is that of the collection. */
export type ResourcePlugin = FastifyPluginAsync & { collection: ResourceDefinition }

/**
 * Returns the plugin of a resource: a collection and its routes. The service reads the collection before it registers the
 * routes, because the collections refer to each other.
 */
export function defineResource(collection: ResourceDefinition, routes: FastifyPluginAsync): ResourcePlugin {
  const plugin: FastifyPluginAsync = (app) => routes(app, {})
  Object.defineProperty(plugin, 'name', { value: collection.name })
  return Object.assign(plugin, { collection })
}

/** The operations of collections: their methods, and the ends of their paths. */
const PLACES = new Map<string, readonly [method: string, end: string]>([
  ['list', ['get', '']],
  ['read', ['get', '/:id']],
  ['create', ['post', '']],
  ['replace', ['put', '/:id']],
  ['update', ['patch', '/:id']],
  ['remove', ['delete', '/:id']],
  ['aggregate', ['get', `/${AGGREGATES}`]],
])

/** Returns the method and the path of an operation, below that of the version. Other names are those of actions. */
function getPlace({ isRestorable, name, parent }: Resource, operation: string) {
  const path = `${parent ? `/${parent.to.name}/:${parent.member}` : ''}/${name}`
  const place = PLACES.get(operation)
  const [method, end] = place ?? ['post', `/:id/${operation}`]
  const own = isRestorable && operation === RESTORES ? 'restore' : 'action'
  const call = `app.${method}('${path}${end}', ${place ? operation : own}(...))`
  return { method, path: `${path}${end}`, call }
}

/** Returns the operations and the actions of a resource. */
const listOperations = ({
  aggregates,
  operations: actions,
  verbs: own,
}: Pick<ResourceDefinition, 'aggregates' | 'operations' | 'verbs'>) => [
  ...own,
  ...(aggregates ? ['aggregate'] : []),
  ...Object.keys(actions),
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
  app.decorate('writeRoutes', new WriteRoutes())
  await app.register(operations)
  const contexts = new Map<string, OperationContext>()
  const registered = new Set<string>()
  for (const each of resources) {
    registerGuards(app, each)
    // The rule of the list, with credentials: figures cost more than a page.
    const rules = { ...each.access.list, anonymous: false }
    if (each.aggregates)
      app.guards.set(`${each.name}:aggregate`, { rules, credential: getCredentialRule(each, 'list') })
    contexts.set(each.name, createOperationContext(app, options, each))
  }

  const build = (route: RouteOptions & { routePath: string }, collectionRoute: CollectionRoute) => {
    const { name } = collectionRoute.collection
    const context = contexts.get(name)
    if (!context) throw new Error(`${name}: the collection is in no list of resources`)
    const { resource } = context
    const { method, routePath } = route
    const operation = collectionRoute.verb ?? routePath.slice(routePath.lastIndexOf('/') + 1)
    const place = getPlace(resource, operation)
    if (method !== place.method.toUpperCase() || routePath !== place.path)
      throw new Error(`${name}: the route ${method} ${route.url} does not fit; write ${place.call}`)
    const access = `${name}:${operation}` as const
    if (registered.has(access)) throw new Error(`${name}: the route of "${operation}" is registered twice`)
    registered.add(access)
    if (!listOperations(resource).includes(operation)) {
      const parts = new Map([
        ['aggregate', 'lists.aggregates'],
        [RESTORES, 'access.restore'],
      ])
      const part = parts.get(operation) ?? `access${collectionRoute.verb ? '' : '.actions'}`
      throw new Error(`${name}: "${operation}" has a route but no access; add it to \`${part}\``)
    }
    Object.assign(resource.code, collectionRoute.code)
    for (const part of Object.values({ ...collectionRoute.code }))
      if ('locks' in part && part.locks) resource.code.locks = part.locks

    const built = collectionRoute.build(context, operation)
    const batchMethod = batchMethods.find((each) => each === method)
    if (built.operation && batchMethod && options.isBatched(resource)) {
      const { params } = built.schema
      const isCreation = collectionRoute.verb === 'create'
      const write = { context, operation: built.operation, access, isCreation, params, route }
      app.writeRoutes.add(batchMethod, routePath, write)
    }
    return { ...built, config: { ...built.config, access, isOpen: app.isOpen(access) } }
  }

  /** Those of GET, which the HEAD route that Fastify adds has too. */
  const builtRoutes = new Map<CollectionRoute, ReturnType<typeof build>>()
  app.addHook('onRoute', (route) => {
    const { collectionRoute } = route.config ?? {}
    if (!collectionRoute) return
    const known = route.method === 'HEAD' ? builtRoutes.get(collectionRoute) : undefined
    const built = known ?? build(route, collectionRoute)
    builtRoutes.set(collectionRoute, built)
    completeRoute(app, route, built)
  })

  app.addHook('onReady', async () => {
    const missing = resources.flatMap((each) =>
      listOperations(each).flatMap((operation) => {
        if (registered.has(`${each.name}:${operation}`)) return []
        const { call } = getPlace(each, operation)
        return `${each.name}: "${operation}" has access but no route; write ${call}, or remove it from \`access\``
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
