/**
 * The routes of a collection, as options for Fastify: `app.get('/products', list(products))`. The scope of a version gives
 * each its schema and its handler (`plugin.ts`).
 */
import {
  createCost,
  type Fields,
  type PricedList,
  toFieldsSchema,
  type Verb,
} from '@resource-api/http/internal'
import { type TObject, type TSchema, type TUnsafe, Type } from '@sinclair/typebox'
import type { FastifyContextConfig } from 'fastify'
import { buildAggregateSchema } from './aggregates/documents.ts'
import { createAggregateHandler } from './aggregates/handler.ts'
import { createAggregateQuery } from './aggregates/query.ts'
import type {
  ActionOptions,
  ChangeCode,
  Code,
  CreateCode,
  Mode,
  RemoveCode,
  RouteTexts,
  RunAction,
} from './code.ts'
import type { Collection, ResourceDefinition } from './definition.ts'
import { withDryRun } from './dry-run.ts'
import type { ListHandler, ReadHandler } from './handlers.ts'
import { buildImportSchema } from './openapi/imports.ts'
import { buildActionSchema, buildBodySchema, buildRouteSchema } from './openapi/operations.ts'
import { toRouteOptions } from './operation.ts'
import type { AnyHandler } from './operation-handler.ts'
import { createActionOperation, NO_FIELDS } from './operations/action.ts'
import { createChangeOperation } from './operations/change.ts'
import type { OperationContext, WriteHandler } from './operations/context.ts'
import { createCreateOperation } from './operations/create.ts'
import { createListOrExportHandler } from './operations/export.ts'
import { createImportHandler, orImport } from './operations/import.ts'
import { createReadHandler } from './operations/read.ts'
import { createRemoveOperation } from './operations/remove.ts'
import { createWriteHandler, type WriteOperation } from './operations/write-operation.ts'
import { DEFAULT_LIMIT } from './reply-size.ts'
import { toBodySchema } from './request/body-schema.ts'
import { createListQuery } from './request/list-query.ts'
import { listConditions, MAX_FILTER_VALUES } from './request/parameters.ts'
import { createSelectionQuery } from './request/selection.ts'
import type { Row } from './store.ts'
import { toVersionView } from './version-fields.ts'

interface RouteSchema {
  params: TSchema
  body?: TUnsafe<Fields>
}

/** What a route has in one version. */
interface BuiltRoute {
  schema: RouteSchema
  config?: FastifyContextConfig
  handler: AnyHandler
  /** Of a write, which batches can run too. */
  operation?: WriteOperation
}

/** A route of a collection before it is registered in a version. */
export interface CollectionRoute {
  collection: ResourceDefinition
  /** The operation; undefined for an action, whose name is the last segment of its path. */
  verb: Verb | 'aggregate' | undefined
  /** The code that other operations run too. */
  code: Code
  /** @param name that of the operation or action */
  build(context: OperationContext, name: string): BuiltRoute
}

declare module 'fastify' {
  interface FastifyContextConfig {
    collectionRoute?: CollectionRoute
  }
}

export const toRoute = (
  collection: ResourceDefinition,
  verb: CollectionRoute['verb'],
  code: Code,
  build: CollectionRoute['build'],
  // Without the access, which only the scope of a version adds, the start fails.
) => toRouteOptions({ collectionRoute: { collection, verb, code, build } })

const buildSchema = ({ app, resource }: OperationContext, verb: Verb, code: RouteTexts) =>
  buildRouteSchema(resource, verb, {
    resourceWriter: app.resourceWriter,
    isOpen: app.isOpen(`${resource.name}:${verb}`),
    code,
  })

/** Returns what the cost of a list depends on. */
const toPricedList = ({ app, resource: mapped }: OperationContext): PricedList => {
  const resource = toVersionView(mapped, app.resourceWriter.mappings)
  return {
    filters: resource.filters,
    conditions: listConditions(resource).map(({ parameter }) => parameter),
    maxFilterValues: MAX_FILTER_VALUES,
    toMany: Object.keys(resource.relations).filter((name) => resource.relations[name]?.many),
    defaultLimit: DEFAULT_LIMIT,
    largePage: resource.select.largePage,
  }
}

interface ListCode extends RouteTexts {
  /** Creates the handler in one version, in the place of that of the engine. */
  createHandler?(context: OperationContext): ListHandler
}

interface ReadCode extends RouteTexts {
  /** Creates the handler in one version, in the place of that of the engine. */
  createHandler?(context: OperationContext): ReadHandler
}

/** GET on a collection: pages, and exports. */
export const list = (collection: ResourceDefinition, code: ListCode = {}) =>
  toRoute(collection, 'list', {}, (context) => {
    const { resource } = context
    return {
      schema: {
        ...buildSchema(context, 'list', code),
        querystring: createListQuery(resource, context.app.resourceWriter.mappings),
      },
      config: { getCost: createCost(toPricedList(context)) },
      handler: code.createHandler?.(context) ?? createListOrExportHandler(context),
    }
  })

/** GET on a resource. */
export const read = (collection: ResourceDefinition, code: ReadCode = {}) =>
  toRoute(collection, 'read', {}, (context) => {
    const { resource } = context
    return {
      schema: {
        ...buildSchema(context, 'read', code),
        querystring: createSelectionQuery(resource, context.app.resourceWriter.mappings),
      },
      config: { getCost: createCost(toPricedList(context)) },
      handler: code.createHandler?.(context) ?? createReadHandler(context),
    }
  })

/** The requests that the computation of aggregates counts as, besides what the filters cost in a list. */
const AGGREGATE_COST = 10

/** GET on the aggregates of a collection: `app.get('/orders/aggregates', aggregate(orders))`. */
export const aggregate = (collection: ResourceDefinition) =>
  toRoute(collection, 'aggregate', {}, (context) => {
    const { app, resource } = context
    const getListCost = createCost(toPricedList(context))
    return {
      schema: {
        ...buildAggregateSchema(resource, app.resourceWriter),
        querystring: createAggregateQuery(resource, app.resourceWriter.mappings),
      },
      config: { getCost: (query) => AGGREGATE_COST - 1 + getListCost(query) },
      handler: createAggregateHandler(context),
    }
  })

/** Builds the route of a write. Those of the application have dry runs. */
export function buildWrite(
  context: OperationContext,
  schema: RouteSchema & Parameters<typeof withDryRun>[0],
  operation: WriteOperation,
  { hasDryRun = true, wrap = (handler: WriteHandler) => handler } = {},
): BuiltRoute {
  const { options, resource } = context
  const handler = wrap(createWriteHandler(context, operation))
  if (!hasDryRun || !(options.isBatched(resource) || resource.hasDryRun))
    return { schema, handler, operation }
  return { schema: withDryRun(schema), config: { hasDryRun }, handler, operation }
}

const buildBodyRoute = (context: OperationContext, mode: Mode, code: RouteTexts) => ({
  ...buildSchema(context, mode, code),
  body: buildBodySchema(context.resource, mode),
})

/** POST on a collection: a resource, or an import. */
export function create<R, C, U>(
  collection: Collection<R, C, U>,
  given: CreateCode<R, C> | RunCreate<R, C> = {},
) {
  const code = erase<CreateCode<Row, Partial<Row>>>(given)
  return toRoute(collection, 'create', { create: code }, (context) => {
    const schema = buildBodyRoute(context, 'create', code)
    const { options, resource } = context
    const operation = createCreateOperation(context, code)
    if (!options.isBatched(resource)) return buildWrite(context, schema, operation)
    let updateOperation: WriteOperation | undefined
    const importRows = createImportHandler(context, {
      create: operation,
      get update() {
        // The rows of an import have no tags. Read when all routes are registered.
        const untagged = { ...context, options: { ...options, requireIfMatch: false } }
        updateOperation ??= createChangeOperation(untagged, 'update', resource.code.update ?? {})
        return updateOperation
      },
    })
    const built = buildWrite(context, { ...schema, ...buildImportSchema(context, schema) }, operation, {
      wrap: (handler) => orImport(handler, importRows),
    })
    return { ...built, config: { ...built.config, isImport: true } }
  })
}

/** PUT on a resource. */
export function replace<R, C, U>(
  collection: Collection<R, C, U>,
  given: ChangeCode<R, U> | RunChange<R, U> = {},
) {
  const code = erase<ChangeCode<Row, Row>>(given)
  return toRoute(collection, 'replace', { replace: code }, (context) =>
    buildWrite(
      context,
      buildBodyRoute(context, 'replace', code),
      createChangeOperation(context, 'replace', code),
    ),
  )
}

/** PATCH on a resource (RFC 7396). */
export function update<R, C, U>(
  collection: Collection<R, C, U>,
  given: ChangeCode<R, U> | RunChange<R, U> = {},
) {
  const code = erase<ChangeCode<Row, Row>>(given)
  return toRoute(collection, 'update', { update: code }, (context) =>
    buildWrite(
      context,
      buildBodyRoute(context, 'update', code),
      createChangeOperation(context, 'update', code),
    ),
  )
}

/** DELETE on a resource. */
export function remove<R, C, U>(collection: Collection<R, C, U>, given: RemoveCode<R> | RunRemove<R> = {}) {
  const code = erase<RemoveCode<Row>>(given)
  return toRoute(collection, 'remove', { remove: code }, (context) =>
    buildWrite(context, buildSchema(context, 'remove', code), createRemoveOperation(context, code)),
  )
}

/** Builds the body of an action. Without fields, it may be absent, or an empty object, which the documents leave out. */
export function buildActionBody({ resource }: OperationContext, given?: TObject): TUnsafe<Fields> {
  const fields = toBodySchema(given ?? NO_FIELDS, 'create')
  const sent = Type.Unsafe<Fields>({
    ...toFieldsSchema(fields, { type: resource.name, addressed: true }),
    ...(!given && { 'x-documented': false }),
  })
  const isOptional = (fields.required ?? []).length === 0
  return isOptional ? Type.Unsafe<Fields>(Type.Optional(sent)) : sent
}

/** An operation of its own on one resource: `app.post('/orders/:id/refunds', action(orders, {...}, refundOrder))`. */
export function action<R, C, U, const B extends TObject>(
  collection: Collection<R, C, U>,
  options: ActionOptions<B>,
  run: RunAction<R, B>,
) {
  return toRoute(collection, undefined, {}, (context, name) => {
    const schema = buildActionSchema(context.resource, name, options, context.app.resourceWriter)
    return buildWrite(
      context,
      { ...schema, body: buildActionBody(context, options.body) },
      createActionOperation(context, name, options, erase<{ run: RunAction<Row> }>(run).run),
      options,
    )
  })
}

/** A collection with the types of its rows and bodies. */
interface Typed {
  readonly types?: { row: unknown; create: unknown; change: unknown }
}

type Types<C extends Typed> = NonNullable<C['types']>

/** The types of the code of a collection, for code that stands beside its routes. */
export type CreateOf<C extends Typed> = CreateCode<Types<C>['row'], Types<C>['create']>
export type ChangeOf<C extends Typed> = ChangeCode<Types<C>['row'], Types<C>['change']>
export type RemoveOf<C extends Typed> = RemoveCode<Types<C>['row']>

type RunCreate<R, C> = NonNullable<CreateCode<R, C>['run']>
type RunChange<R, U> = NonNullable<ChangeCode<R, U>['run']>
type RunRemove<R> = NonNullable<RemoveCode<R>['run']>

/** Returns code without the types of its collection: the engine calls it with rows and bodies of this collection only. */
const erase = <Erased extends object>(code: object): Erased =>
  (typeof code === 'function' ? { run: code } : code) as Erased
