/** Routes of one's own beside the resources: their group in the documents, and their access in the tables. */
import type { RouteAccess } from '@resource-api/api/access'
import type { FastifyInstance, FastifyPluginAsync } from 'fastify'

export interface OwnRoutes {
  /** The group of the routes in the documents. */
  name: string
  description: string
  /** Scopes that no resource has, such as `reports:read`, for routes that require them. */
  scopes?: readonly string[]
  /** Registers the routes in the scope of a version: `app.get('/reports/sales', operation({ ... }))`. */
  plugin: FastifyPluginAsync
}

/** Returns the scopes that no resource has. */
export const listRouteScopes = (routes: readonly OwnRoutes[]): string[] =>
  routes.flatMap(({ scopes = [] }) => [...scopes])

/** A registered route of one's own. */
interface OwnRoute {
  /** The group in the documents. */
  name: string
  method: string
  /** With the prefix of its version, such as `/api/v1/reports/:id`. */
  url: string
  version: number
  access: RouteAccess
}

declare module 'fastify' {
  interface FastifyInstance {
    /** All routes of one's own, of all versions. */
    ownRoutes: OwnRoute[]
  }
}

/** Creates the plugin that registers routes in the scope of a version. */
export const createOwnRoutes =
  ({ name, plugin }: OwnRoutes) =>
  async (app: FastifyInstance): Promise<void> => {
    const { ownRoutes, resourceWriter } = app
    app.addHook('onRoute', (route) => {
      const { method, schema = {}, url } = route
      route.schema = { ...schema, tags: schema.tags ?? [name] }
      // Without access, the start fails.
      const { access = 'public' } = route.config ?? {}
      for (const each of [method].flat().filter((verb) => verb !== 'HEAD'))
        ownRoutes.push({ name, method: each, url, version: resourceWriter.version, access })
    })
    // The handlers have the database, and may write users with it.
    app.addHook('preHandler', (request, _reply, done) => {
      request.mayChangeCredentials = request.method !== 'GET' && request.method !== 'HEAD'
      done()
    })
    await app.register(plugin)
  }
