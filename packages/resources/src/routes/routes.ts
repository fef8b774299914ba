/** The routes of a collection, as options for Fastify: `app.get('/products', list(resource))`. */
import { toFieldsSchema } from '@resource-api/api/results'
import type { Verb } from '@resource-api/api/rules'
import type { Fields } from '@resource-api/api/validation'
import { EXPORT_TYPES } from '@resource-api/api/versions'
import { createCost, type PricedList } from '@resource-api/http/internal'
import { type TObject, type TSchema, type TUnsafe, Type } from '@sinclair/typebox'
import type { FastifyContextConfig, FastifySchema } from 'fastify'
import { buildAggregateSchema } from '../aggregates/documents.ts'
import { createAggregateHandler } from '../aggregates/handler.ts'
import { createAggregateQuery } from '../aggregates/query.ts'
import type {
  ActionOptions,
  ChangeCode,
  CreateCode,
  Mode,
  RemoveCode,
  RouteTexts,
  RunAction,
} from '../definition/code.ts'
import type { AnyHandler, ListHandler, ReadHandler } from '../definition/handlers.ts'
import type { Row } from '../definition/store.ts'
import { withDryRun } from '../dry-run.ts'
import { buildImportSchema } from '../openapi/imports.ts'
import { buildActionSchema, buildBodySchema, buildRouteSchema } from '../openapi/operations.ts'
import { createActionOperation, NO_FIELDS } from '../operations/action.ts'
import { createChangeOperation } from '../operations/change.ts'
import type { OperationContext, VersionedResource } from '../operations/context.ts'
import { createCreateOperation, createImportFinder } from '../operations/create.ts'
import { createListOrExportHandler } from '../operations/export.ts'
import { createReadHandler } from '../operations/read.ts'
import { createRemoveOperation } from '../operations/remove.ts'
import type { WriteOperation } from '../operations/write-operation.ts'
import { toBodySchema } from '../request/body-schema.ts'
import { createListQuery } from '../request/list-query.ts'
import { listConditions, MAX_FILTER_VALUES } from '../request/parameters.ts'
import { createSelectionQuery } from '../request/selection.ts'
import { toVersionView } from '../request/version-fields.ts'
import { DEFAULT_LIMIT } from '../sql/reply-size.ts'
import { type CollectionOperation, operation } from './operation.ts'

interface RouteSchema
  extends Omit<FastifySchema, 'params' | 'querystring' | 'headers' | 'body' | 'response'> {
  params: TSchema
  query?: TSchema
  headers?: TObject
  body?: TUnsafe<Fields>
  response: Readonly<Record<number, unknown>>
}

/** What only a route of a collection says, besides what all operations say. */
interface CollectionParts extends Partial<Omit<CollectionOperation, 'context' | 'name'>> {
  name: string
  config?: FastifyContextConfig
}

/** Returns the options of a route of a collection. What it does is one of `handle` and `write`. */
function toRoute(
  context: OperationContext,
  { name, code, config, findOther }: CollectionParts,
  schema: RouteSchema,
  work: { handle: AnyHandler } | { write: WriteOperation },
) {
  const { app, resource } = context
  const access = `${resource.name}:${name}` as const
  const of = { context, name, ...(code && { code }), ...(findOther && { findOther }) }
  return operation({ ...schema, ...work, access, config: { ...config, isOpen: app.isOpen(access) }, of })
}

/** Returns the options of the route of a write. Those of the application have dry runs. */
export function toWriteRoute(
  context: OperationContext,
  parts: CollectionParts,
  schema: RouteSchema & Parameters<typeof withDryRun>[0],
  write: WriteOperation,
  hasDryRun = true,
) {
  const { options, resource } = context
  if (!hasDryRun || !(options.isBatched(resource) || resource.hasDryRun))
    return toRoute(context, parts, schema, { write })
  return toRoute(context, { ...parts, config: { ...parts.config, hasDryRun } }, withDryRun(schema), { write })
}

const buildSchema = ({ app, resource }: OperationContext, verb: Verb, code: RouteTexts) =>
  buildRouteSchema(resource, verb, app.resourceWriter, code)

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
  /** In the place of the handler of the engine. */
  handle?: ListHandler
}

interface ReadCode extends RouteTexts {
  /** In the place of the handler of the engine. */
  handle?: ReadHandler
}

/** GET on a collection: pages, and exports. */
export function list(context: OperationContext, { handle, ...texts }: ListCode = {}) {
  const { app, resource } = context
  const { streams = EXPORT_TYPES } = resource
  return toRoute(
    context,
    { name: 'list', config: { getCost: createCost(toPricedList(context)), streams } },
    { ...buildSchema(context, 'list', texts), query: createListQuery(resource, app.resourceWriter.mappings) },
    { handle: handle ?? createListOrExportHandler(context) },
  )
}

/** GET on a resource. */
export function read(context: OperationContext, { handle, ...texts }: ReadCode = {}) {
  const { app, resource } = context
  return toRoute(
    context,
    { name: 'read', config: { getCost: createCost(toPricedList(context)) } },
    {
      ...buildSchema(context, 'read', texts),
      query: createSelectionQuery(resource, app.resourceWriter.mappings),
    },
    { handle: handle ?? createReadHandler(context) },
  )
}

/** The requests that the computation of aggregates counts as, besides what the filters cost in a list. */
const AGGREGATE_COST = 10

/** GET on the aggregates of a collection: `app.get('/orders/aggregates', aggregate(resource))`. */
export function aggregate(context: OperationContext) {
  const { app, resource } = context
  const getListCost = createCost(toPricedList(context))
  return toRoute(
    context,
    { name: 'aggregate', config: { getCost: (query) => AGGREGATE_COST - 1 + getListCost(query) } },
    {
      ...buildAggregateSchema(resource, app.resourceWriter),
      query: createAggregateQuery(resource, app.resourceWriter.mappings),
    },
    { handle: createAggregateHandler(context) },
  )
}

const buildBodyRoute = (context: OperationContext, mode: Mode, code: RouteTexts) => ({
  ...buildSchema(context, mode, code),
  body: buildBodySchema(context.resource, mode),
})

/** POST on a collection: a resource, or an import. */
export function create<R = Row, C = Fields, U = Fields>(
  context: VersionedResource<R, C, U>,
  given: CreateCode<R, C> | RunCreate<R, C> = {},
) {
  const { options, resource } = context
  const code = erase<CreateCode<Row, Partial<Row>>>(given)
  const schema = buildBodyRoute(context, 'create', code)
  const write = createCreateOperation(context, code)
  const parts = { name: 'create', code: { create: code } }
  if (!options.isBatched(resource)) return toWriteRoute(context, parts, schema, write)
  return toWriteRoute(
    context,
    { ...parts, config: { isImport: true }, findOther: createImportFinder(context, write) },
    { ...schema, ...buildImportSchema(context, schema) },
    write,
  )
}

/** PUT on a resource. */
export function replace<R = Row, C = Fields, U = Fields>(
  context: VersionedResource<R, C, U>,
  given: ChangeCode<R, U> | RunChange<R, U> = {},
) {
  const code = erase<ChangeCode<Row, Row>>(given)
  const write = createChangeOperation(context, 'replace', code)
  const parts = { name: 'replace', code: { replace: code } }
  return toWriteRoute(context, parts, buildBodyRoute(context, 'replace', code), write)
}

/** PATCH on a resource (RFC 7396). */
export function update<R = Row, C = Fields, U = Fields>(
  context: VersionedResource<R, C, U>,
  given: ChangeCode<R, U> | RunChange<R, U> = {},
) {
  const code = erase<ChangeCode<Row, Row>>(given)
  const write = createChangeOperation(context, 'update', code)
  const parts = { name: 'update', code: { update: code } }
  return toWriteRoute(context, parts, buildBodyRoute(context, 'update', code), write)
}

/** DELETE on a resource. */
export function remove<R = Row, C = Fields, U = Fields>(
  context: VersionedResource<R, C, U>,
  given: RemoveCode<R> | RunRemove<R> = {},
) {
  const code = erase<RemoveCode<Row>>(given)
  const write = createRemoveOperation(context, code)
  const parts = { name: 'remove', code: { remove: code } }
  return toWriteRoute(context, parts, buildSchema(context, 'remove', code), write)
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

/**
 * An operation of its own on one resource: `app.post('/orders/:id/refunds', action(resource, 'refunds', {...}, refundOrder))`.
 * @param name as in `access.actions`
 */
export function action<R = Row, C = Fields, U = Fields, const B extends TObject = TObject>(
  context: VersionedResource<R, C, U>,
  name: string,
  options: ActionOptions<B>,
  run: RunAction<R, B>,
) {
  const schema = buildActionSchema(context.resource, name, options, context.app.resourceWriter)
  return toWriteRoute(
    context,
    { name },
    { ...schema, body: buildActionBody(context, options.body) },
    createActionOperation(context, name, options, erase<{ run: RunAction<Row> }>(run).run),
    options.hasDryRun,
  )
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
