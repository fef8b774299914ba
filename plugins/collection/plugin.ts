/** Registers the routes of one resource in the scope of one version: list, read, create, replace, update, remove. */
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import { type TSchema, Type } from '@sinclair/typebox'
import type { FastifyInstance, RouteGenericInterface } from 'fastify'
import { type RouteAccess, registerGuards, type Verb, verbs } from '../access/index.ts'
import { createCost, type PricedList } from '../rate-limit/cost.ts'
import type { Fields } from '../validation/schema-functions.ts'
import type { SentBody } from '../versioning/representation/types.ts'
import type { CollectionOptions, Handler, Mode } from './definition.ts'
import { buildBodySchema, buildOwnRouteSchema, buildRouteSchema } from './openapi/operations.ts'
import { createChangeHandler } from './operations/change.ts'
import { createOperationContext, recordingWriter } from './operations/context.ts'
import { createCreateHandler } from './operations/create.ts'
import { createListHandler } from './operations/list.ts'
import { createOwnHandler, NO_FIELDS } from './operations/own.ts'
import { createReadHandler } from './operations/read.ts'
import { createRemoveHandler } from './operations/remove.ts'
import { DEFAULT_LIMIT, getChunkSize } from './reply-size.ts'
import { toBodySchema } from './request/body-schema.ts'
import { createListQuery } from './request/list-query.ts'
import { MAX_FILTER_VALUES } from './request/parameters.ts'
import { createSelectionQuery } from './request/selection.ts'
import type { Resource } from './resource.ts'

/** Returns what the cost of a list depends on, with the names of the version. */
const toPricedList = ({ published, relations, select }: Resource): PricedList => ({
  filters: published.filters,
  maxFilterValues: MAX_FILTER_VALUES,
  toMany: Object.keys(relations).filter((name) => relations[name]?.many),
  defaultLimit: DEFAULT_LIMIT,
  chunkSize: getChunkSize(select.maxRowBytes),
})

export const createCollection =
  (compiled: Resource) =>
  async (app: FastifyInstance, options: CollectionOptions): Promise<void> => {
    const { representation } = options
    const context = createOperationContext(app, options, compiled)
    const { resource } = context
    const parent = resource.parent ? `/${resource.parent.to.name}/:${resource.parent.member}` : ''
    const collectionUrl = `${parent}/${resource.name}`
    const itemUrl = `${collectionUrl}/:id`
    const ownHandlers = resource.handlers?.({ ...options, app })
    const getCost = createCost(toPricedList(resource))
    const { holdDuring } = app.concurrency
    /** Returns a handler that holds a slot of the user's concurrency, and records that the user has written. */
    const hold = <Route extends RouteGenericInterface>(handler: Handler<Route>) =>
      holdDuring(recordingWriter(app.database, handler))
    registerGuards(app, resource)

    /** Returns the options that all routes have. The handlers call `checkRequest`, which throws the validation error. */
    const describe = (verb: Verb) => {
      const access: RouteAccess = `${resource.name}:${verb}`
      const isOpen = app.isOpen(access)
      const schema = buildRouteSchema(resource.published, verb, { representation, isOpen })
      return { schema, config: { access }, attachValidation: true }
    }
    const describeRead = <Query extends TSchema>(verb: 'list' | 'read', querystring: Query) => {
      const { schema, config, ...route } = describe(verb)
      return { ...route, schema: { ...schema, querystring }, config: { ...config, getCost } }
    }
    const describeWrite = (verb: Mode) => {
      const route = describe(verb)
      const body = buildBodySchema(resource.published, verb, representation)
      return { ...route, schema: { ...route.schema, body } }
    }

    const routes = app.withTypeProvider<TypeBoxTypeProvider>()
    const register: Record<Verb, () => unknown> = {
      list() {
        const list = ownHandlers?.list ?? createListHandler(context)
        routes.get(collectionUrl, describeRead('list', createListQuery(resource)), holdDuring(list))
      },
      read() {
        const read = ownHandlers?.read ?? createReadHandler(context)
        routes.get(itemUrl, describeRead('read', createSelectionQuery(resource)), holdDuring(read))
      },
      create: () => routes.post(collectionUrl, describeWrite('create'), hold(createCreateHandler(context))),
      replace: () =>
        routes.put(itemUrl, describeWrite('replace'), hold(createChangeHandler(context, 'replace'))),
      update: () =>
        routes.patch(itemUrl, describeWrite('update'), hold(createChangeHandler(context, 'update'))),
      remove: () => routes.delete(itemUrl, describe('remove'), hold(createRemoveHandler(context))),
    }
    for (const verb of resource.verbs ?? verbs) register[verb]()

    for (const [name, own] of Object.entries(resource.operations ?? {})) {
      const fields = toBodySchema(own.body ?? NO_FIELDS, 'create')
      const sent = Type.Unsafe<SentBody<Fields>>({
        ...representation.schemas.body(fields, resource.name, true),
        // An operation without fields accepts an empty object, which the documents leave out.
        ...(!own.body && { 'x-documented': false }),
      })
      const isOptional = (fields.required ?? []).length === 0
      const body = isOptional ? Type.Unsafe<SentBody<Fields>>(Type.Optional(sent)) : sent
      routes.post(
        `${itemUrl}/${name}`,
        {
          schema: { ...buildOwnRouteSchema(resource.published, name, own, representation), body },
          config: { access: `${resource.name}:${name}` },
          attachValidation: true,
        },
        hold(createOwnHandler(context, name, own)),
      )
    }
  }
