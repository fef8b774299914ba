/** Registers the routes of one resource in the scope of one version: list, read, create, replace, update, remove. */
import type { FastifyInstance } from 'fastify'
import { type RouteAccess, registerGuards, verbs } from '../access/index.ts'
import { getRouteSchema } from '../openapi/operation.ts'
import type { Resource } from './compile.ts'
import { describeOperation } from './openapi/operations.ts'
import type { CollectionOptions } from './options.ts'
import { createReadHandlers } from './read/handlers.ts'
import { createCost } from './request/cost.ts'
import { ajv } from './validator.ts'
import { applyVersion } from './versions/apply-version.ts'
import { createWriteHandlers } from './write/handlers.ts'

/** Creates the Fastify plugin of a resource. */
export const createCollection =
  (resource: Resource) =>
  async (app: FastifyInstance, options: CollectionOptions): Promise<void> => {
    const { representation } = options
    const versioned = applyVersion(resource, representation.version)
    const { list, read } = createReadHandlers(versioned, app, options, ajv)
    const { create, replace, update, remove } = createWriteHandlers(versioned, app, options, ajv)
    const parent = resource.parent ? `/${resource.parent.to.name}/:${resource.parent.member}` : ''
    const collectionUrl = `${parent}/${resource.name}`
    const itemUrl = `${collectionUrl}/:id`
    const operations = {
      list: { method: 'GET', url: collectionUrl, handler: list },
      create: { method: 'POST', url: collectionUrl, handler: create },
      read: { method: 'GET', url: itemUrl, handler: read },
      replace: { method: 'PUT', url: itemUrl, handler: replace },
      update: { method: 'PATCH', url: itemUrl, handler: update },
      remove: { method: 'DELETE', url: itemUrl, handler: remove },
    } as const

    const ownHandlers = resource.handlers?.({ ...options, app }) ?? {}
    const getCost = createCost(versioned)
    registerGuards(app, resource)
    for (const verb of resource.verbs ?? verbs) {
      const { method, url, handler } = operations[verb]
      const routeAccess: RouteAccess = `${resource.name}:${verb}`
      const isOpen = app.isOpen(routeAccess)
      const operation = describeOperation(versioned.published, verb, { representation, isOpen })
      const config = { access: routeAccess, operation }
      app.route({
        method,
        url,
        handler: app.concurrency.holdDuring(ownHandlers[verb] ?? handler),
        config: method === 'GET' ? { ...config, getCost } : config,
        schema: getRouteSchema(operation),
      })
    }
  }
