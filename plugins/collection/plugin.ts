/** A resource as one Fastify plugin: list, read, create, replace, update, remove, in whichever version's scope it stands. */
import type { FastifyInstance } from 'fastify'
import { type RouteAccess, registerGuards, verbs } from '../access/index.ts'
import { createAjv } from '../validation/formats.ts'
import type { Resource } from './compile.ts'
import { describe } from './openapi/operations.ts'
import type { CollectionOptions } from './options.ts'
import { createReadHandlers } from './read/handlers.ts'
import { createCost } from './request/cost.ts'
import { createWriteHandlers } from './write/handlers.ts'

const ajv = createAjv()

/** One collection in one version's scope. */
export const collection =
  (resource: Resource) =>
  async (app: FastifyInstance, options: CollectionOptions): Promise<void> => {
    const { list, read } = createReadHandlers(resource, app, options, ajv)
    const { create, replace, update, remove } = createWriteHandlers(resource, app, options, ajv)
    const parent = resource.parent ? `/${resource.parent.to.name}/:${resource.parent.member}` : ''
    const all = `${parent}/${resource.name}`
    const one = `${all}/:id`
    const operations = {
      list: { method: 'GET', url: all, handler: list },
      create: { method: 'POST', url: all, handler: create },
      read: { method: 'GET', url: one, handler: read },
      replace: { method: 'PUT', url: one, handler: replace },
      update: { method: 'PATCH', url: one, handler: update },
      remove: { method: 'DELETE', url: one, handler: remove },
    } as const

    // The kernel reads queries and bodies itself, in the contract's order; Fastify would look at the body first.
    app.setValidatorCompiler(() => () => true)
    const { access, bearerOnly = false } = resource
    const getCost = createCost(resource)
    registerGuards(app, resource.name, { access, bearerOnly })
    for (const verb of resource.verbs ?? verbs) {
      const { method, url, handler } = operations[verb]
      const word: RouteAccess = `${resource.name}:${verb}`
      const told = { representation: options.representation, isOpen: app.isOpen(word) }
      app.route({
        method,
        url,
        handler: app.concurrency.holdDuring(handler),
        config: method === 'GET' ? { access: word, getCost } : { access: word },
        schema: describe(resource, verb, told),
      })
    }
  }
