/**
 * `operation()` returns the options of a route, for Fastify: `app.get('/reports/sales', operation({ access, response, run }))`.
 * Every route of the API has them: those of collections are made by `routes.ts`.
 */
import {
  NO_QUERY,
  type RouteAccess,
  readResponse,
  toFieldsSchema,
  toResultSchema,
} from '@resource-api/http/internal'
import type { TObject, TSchema } from '@sinclair/typebox'
import type {
  FastifyContextConfig,
  FastifyInstance,
  FastifySchema,
  RouteShorthandOptionsWithHandler,
} from 'fastify'
import { type AnyHandler, createOperationHandler, type Work } from './operation-handler.ts'

interface Parts<A, P extends TSchema, Q extends TSchema, B extends TSchema, I>
  extends Omit<FastifySchema, 'body' | 'params' | 'querystring' | 'headers' | 'response'> {
  /** Who may call it: 'public', 'authenticated', as an operation of a collection, or roles and a scope. */
  access: A
  params?: P
  /** Other parameters are refused, unless it permits additional properties. Default: none. */
  querystring?: Q
  headers?: TObject
  body?: B
  /** The schemas of responses by their status. The first one is that of a success. Default: any response with 200. */
  response?: Readonly<Record<number, unknown>>
  /**
   * The type of the resource that it responds with: `run` returns the members, and the body has the fields. The version puts
   * both into its envelope. Without it, they have none.
   */
  type?: string
  /**
   * Whether it runs in one transaction, that of `store`, and once for each Idempotency-Key. For POST and PATCH. Its result is
   * stored: it must have no secrets.
   */
  idempotent?: I
  /** Whether it leaves the slot of the caller's concurrency to the requests that it makes itself. */
  leavesSlot?: boolean
}

/** An operation that its scope has not completed yet. */
interface Operation {
  isIdempotent: boolean
  leavesSlot: boolean
  createHandler(app: FastifyInstance): AnyHandler
}

declare module 'fastify' {
  interface FastifyContextConfig {
    operation?: Operation
  }
}

/** Returns route options that the scope of a version completes: see `operations.ts`. */
export const toRouteOptions = (
  config: FastifyContextConfig,
  schema?: FastifySchema,
): RouteShorthandOptionsWithHandler => ({
  config,
  ...(schema && { schema }),
  // The handlers call `checkRequest`, which throws the validation error.
  attachValidation: true,
  handler: ({ routeOptions }) => {
    throw new Error(`The route ${routeOptions.url} is outside the scope of a version`)
  },
})

/** Returns the schema of a successful response, with the resource of the type in it. */
function toResponse(status: string, response: unknown, type: string, operationId: string): unknown {
  const plain = readResponse(status, response, operationId)
  const content = plain.content?.['application/json']
  if (!content || !status.startsWith('2')) return response
  // The members of a resource are those of an object.
  const schema = toResultSchema({ type, members: content.schema as TObject, selectable: false })
  const examples = Object.entries(content.examples ?? {}).map(([name, { value, ...each }]) => [
    name,
    { ...each, value: { entity: { type, members: Object(value) } } },
  ])
  return { ...plain, content: { 'application/json': { schema, examples: Object.fromEntries(examples) } } }
}

/**
 * Returns the options of a route. What its schema does not say has the defaults of the documents; its access, and the
 * Idempotency-Key, are described from the parts.
 */
export function operation<
  const A extends RouteAccess,
  P extends TSchema = TSchema,
  Q extends TSchema = TSchema,
  B extends TSchema = TSchema,
  const I extends boolean = false,
  F = unknown,
  R = unknown,
>(parts: Parts<A, P, Q, B, I> & Work<A, P, Q, B, I, F, R>): RouteShorthandOptionsWithHandler {
  const { access, type, idempotent = false, leavesSlot = false, response = {}, body, ...others } = parts
  const { run, plan, handle, querystring = NO_QUERY, ...schema } = others
  const { operationId = type ?? '', params } = schema
  const responses = Object.entries(response).map(([name, each]) => [
    name,
    type === undefined ? each : toResponse(name, each, type, operationId),
  ])
  const [[status, success] = ['200', undefined]] = Object.entries(response)
  const { content } = success === undefined ? {} : readResponse(status, success, operationId)
  const createHandler = (app: FastifyInstance) =>
    createOperationHandler(app, {
      // One of the three.
      work: { run, plan, handle } as Work<A, P, Q, B, I, F, R>,
      ...{ type, idempotent, status: Number(status), schema: content?.['application/json'].schema },
    })
  const addressed = params?.properties?.id !== undefined
  return toRouteOptions(
    { access, operation: { isIdempotent: idempotent, leavesSlot, createHandler } },
    {
      ...schema,
      querystring: { additionalProperties: false, ...querystring },
      ...(body && { body: type === undefined ? body : toFieldsSchema(body, { type, addressed }) }),
      ...(responses.length > 0 && { response: Object.fromEntries(responses) }),
    },
  )
}
