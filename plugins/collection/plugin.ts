/** Registers the routes of one resource in the scope of one version: list, read, create, replace, update, remove. */
import type { FastifyInstance } from 'fastify'
import { type RouteAccess, registerGuards, verbs } from '../access/index.ts'
import { getRouteSchema } from '../openapi/operation.ts'
import type { Resource } from './compile.ts'
import { describeOperation, describeOwnOperation } from './openapi/operations.ts'
import { createChangeHandler } from './operations/change.ts'
import { createOperationContext } from './operations/context.ts'
import { createCreateHandler } from './operations/create.ts'
import { createListHandler } from './operations/list.ts'
import { createOwnHandler } from './operations/own.ts'
import { createReadHandler } from './operations/read.ts'
import { recordingWriter } from './operations/recording-writer.ts'
import { createRemoveHandler } from './operations/remove.ts'
import type { CollectionOptions } from './options.ts'
import { createCost } from './request/cost.ts'

/** Creates the Fastify plugin of a resource. */
export const createCollection =
  (resource: Resource) =>
  async (app: FastifyInstance, options: CollectionOptions): Promise<void> => {
    const context = createOperationContext(app, options, resource)
    const parent = resource.parent ? `/${resource.parent.to.name}/:${resource.parent.member}` : ''
    const collectionUrl = `${parent}/${resource.name}`
    const itemUrl = `${collectionUrl}/:id`
    const operations = {
      list: { method: 'GET', url: collectionUrl, handler: createListHandler(context) },
      create: { method: 'POST', url: collectionUrl, handler: createCreateHandler(context) },
      read: { method: 'GET', url: itemUrl, handler: createReadHandler(context) },
      replace: { method: 'PUT', url: itemUrl, handler: createChangeHandler(context, 'replace') },
      update: { method: 'PATCH', url: itemUrl, handler: createChangeHandler(context, 'update') },
      remove: { method: 'DELETE', url: itemUrl, handler: createRemoveHandler(context) },
    } as const

    const ownHandlers = resource.handlers?.({ ...options, app }) ?? {}
    const getCost = createCost(context.versioned)
    registerGuards(app, resource)
    for (const verb of resource.verbs ?? verbs) {
      const { method, url, handler } = operations[verb]
      const routeAccess: RouteAccess = `${resource.name}:${verb}`
      const isOpen = app.isOpen(routeAccess)
      const operation = describeOperation(context.versioned.published, verb, {
        representation: options.representation,
        isOpen,
      })
      const config = { access: routeAccess, operation }
      const run = ownHandlers[verb] ?? handler
      app.route({
        method,
        url,
        handler: app.concurrency.holdDuring(method === 'GET' ? run : recordingWriter(app.database, run)),
        config: method === 'GET' ? { ...config, getCost } : config,
        schema: getRouteSchema(operation),
      })
    }
    for (const [name, own] of Object.entries(resource.operations ?? {})) {
      const operation = describeOwnOperation(context.versioned.published, name, own, options.representation)
      app.route({
        method: 'POST',
        url: `${itemUrl}/${name}`,
        handler: app.concurrency.holdDuring(
          recordingWriter(app.database, createOwnHandler(context, name, own)),
        ),
        config: { access: `${resource.name}:${name}`, operation },
        schema: getRouteSchema(operation),
      })
    }
  }
