/** Registers the routes of one resource in the scope of one version: list, read, create, replace, update, remove. */
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import { type TSchema, type TUnsafe, Type } from '@sinclair/typebox'
import type { FastifyInstance } from 'fastify'
import { registerGuards } from '../access/guards.ts'
import { type Verb, verbs } from '../access/rules.ts'
import { createCost, type PricedList } from '../rate-limit/cost.ts'
import type { Fields } from '../validation/schema-functions.ts'
import type { SentBody } from '../versioning/representation/types.ts'
import type { Mode } from './actions.ts'
import type { CollectionOptions } from './handlers.ts'
import { buildImportSchema } from './openapi/imports.ts'
import { buildBodySchema, buildOwnRouteSchema, buildRouteSchema } from './openapi/operations.ts'
import { createChangeOperation } from './operations/change.ts'
import { createOperationContext, recordingWriter, type WriteHandler } from './operations/context.ts'
import { createCreateOperation } from './operations/create.ts'
import { createListOrExportHandler } from './operations/export.ts'
import { createImportHandler, orImport } from './operations/import.ts'
import { createOwnOperation, NO_FIELDS } from './operations/own.ts'
import { createReadHandler } from './operations/read.ts'
import { createRemoveOperation } from './operations/remove.ts'
import { createWriteHandler, type WriteOperation } from './operations/write-operation.ts'
import type { BatchMethod } from './operations/write-routes.ts'
import { DEFAULT_LIMIT } from './reply-size.ts'
import { toBodySchema } from './request/body-schema.ts'
import { createListQuery } from './request/list-query.ts'
import { listConditions, MAX_FILTER_VALUES } from './request/parameters.ts'
import { createSelectionQuery } from './request/selection.ts'
import type { Resource } from './resource.ts'

/** Returns what the cost of a list depends on, with the names of the version. */
const toPricedList = ({ published, relations, select }: Resource): PricedList => ({
  filters: published.filters,
  conditions: listConditions(published).map(({ parameter }) => parameter),
  maxFilterValues: MAX_FILTER_VALUES,
  toMany: Object.keys(relations).filter((name) => relations[name]?.many),
  defaultLimit: DEFAULT_LIMIT,
  largePage: select.largePage,
})

interface WriteRouteOptions {
  schema: { params: TSchema; body?: TUnsafe<SentBody<Fields>> }
  config: { access: `${string}:${string}`; isImport?: boolean }
  attachValidation: boolean
}

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
    registerGuards(app, resource)

    /** Returns the options that all routes have. The handlers call `checkRequest`, which throws the validation error. */
    const describe = (verb: Verb) => {
      const access = `${resource.name}:${verb}` as const
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

    /** Registers a write, which single requests and batches can run. */
    const write = (
      method: BatchMethod,
      url: string,
      route: WriteRouteOptions,
      operation: WriteOperation,
      wrap = (handler: WriteHandler) => handler,
    ) => {
      const { params, body } = route.schema
      const { access } = route.config
      // The write holds a slot of the user's concurrency, and records that the user has written.
      const handler = holdDuring(recordingWriter(app.database, wrap(createWriteHandler(context, operation))))
      routes.route({ method, url, ...route, handler })
      if (!options.isBatched) return
      const isCreation = access === `${resource.name}:create`
      app.writeRoutes.add(method, url, { context, operation, access, isCreation, params, body })
    }

    const register: Record<Verb, () => unknown> = {
      list() {
        const list = ownHandlers?.list ?? createListOrExportHandler(context)
        routes.get(collectionUrl, describeRead('list', createListQuery(resource)), holdDuring(list))
      },
      read() {
        const read = ownHandlers?.read ?? createReadHandler(context)
        routes.get(itemUrl, describeRead('read', createSelectionQuery(resource)), holdDuring(read))
      },
      create() {
        const { schema, config, ...route } = describeWrite('create')
        const create = createCreateOperation(context)
        if (!options.isBatched) return write('POST', collectionUrl, { schema, config, ...route }, create)
        // The rows of an import have no tags.
        const update = createChangeOperation(
          { ...context, options: { ...options, requireIfMatch: false } },
          'update',
        )
        const importRows = createImportHandler(context, { create, update })
        return write(
          'POST',
          collectionUrl,
          {
            ...route,
            schema: { ...schema, ...buildImportSchema(resource, schema) },
            config: { ...config, isImport: true },
          },
          create,
          (handler) => orImport(handler, importRows),
        )
      },
      replace: () =>
        write('PUT', itemUrl, describeWrite('replace'), createChangeOperation(context, 'replace')),
      update: () =>
        write('PATCH', itemUrl, describeWrite('update'), createChangeOperation(context, 'update')),
      remove: () => write('DELETE', itemUrl, describe('remove'), createRemoveOperation(context)),
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
      write(
        'POST',
        `${itemUrl}/${name}`,
        {
          schema: { ...buildOwnRouteSchema(resource.published, name, own, representation), body },
          config: { access: `${resource.name}:${name}` },
          attachValidation: true,
        },
        createOwnOperation(context, name, own),
      )
    }
  }
