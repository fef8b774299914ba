/**
 * `operation()` returns the options of a route, for Fastify: `app.get('/reports/sales', operation({ access, response, run }))`.
 * All routes of the API are made by it, those of collections too (`routes.ts`): what it returns has the schema, the
 * configuration and the handler that run. Only the envelope of a version is added around them (`representRoutes`).
 */
import type { RouteAccess } from '@resource-api/api/access'
import { NO_QUERY, readResponse } from '@resource-api/api/documents'
import { toFieldsSchema, toResultSchema } from '@resource-api/api/results'
import { type TObject, type TSchema, Type } from '@sinclair/typebox'
import type {
  FastifyContextConfig,
  FastifyRequest,
  FastifySchema,
  RouteShorthandOptionsWithHandler,
} from 'fastify'
import type { Code } from '../definition/code.ts'
import type { AnyHandler } from '../definition/handlers.ts'
import { idempotencyKey } from '../openapi/parameters.ts'
import type { OperationContext } from '../operations/context.ts'
import {
  type Call,
  createOwnScope,
  createRun,
  type Run,
  toWriteOperation,
} from '../operations/own-operation.ts'
import { createHandler } from '../operations/run-operation.ts'
import type { WriteInput, WriteOperation } from '../operations/write-operation.ts'

/**
 * What an operation does: `run`, after the request was checked; `write`, the steps of a write; or `handle`, which checks the
 * request itself, in an order of its own.
 */
type Work<A, P extends TSchema, Q extends TSchema, B extends TSchema, I, W extends WriteInput, F> =
  | { run(call: Call<A, P, Q, B, I>): Promise<unknown>; write?: never; handle?: never }
  | { write: WriteOperation<W, F>; run?: never; handle?: never }
  | { handle: AnyHandler; run?: never; write?: never }

interface Parts<A, P extends TSchema, Q extends TSchema, B extends TSchema, I>
  extends Omit<FastifySchema, 'body' | 'params' | 'querystring' | 'headers' | 'response'> {
  /** Who may call it: 'public', 'authenticated', as an operation of a collection, or roles and a scope. */
  access: A
  params?: P
  /** Other parameters are refused, unless it permits additional properties. Default: none. */
  query?: Q
  headers?: TObject
  body?: B
  /** The schemas of responses by status, that of the success first. Default: any response with 200. */
  response?: Readonly<Record<number, unknown>>
  /**
   * The type of the resource that it responds with: `run` returns the members, and the body has the fields. The version puts
   * both into its envelope. Without it, they have none.
   */
  type?: string
  /**
   * Whether `run` has one transaction, that of `store`, and runs once for each Idempotency-Key. For POST and PATCH. Its
   * result is stored: it must have no secrets.
   */
  idempotent?: I
  /** Whether it leaves the slot of the caller's concurrency to the requests that it makes itself. */
  leavesSlot?: boolean
  /** Further configuration of the route. */
  config?: FastifyContextConfig
  /** The collection in the version, of an operation of a collection. */
  of?: CollectionOperation
}

/** The operation of a collection that a route is. */
export interface CollectionOperation {
  context: OperationContext
  /** The name of the operation or action. */
  name: string
  /** The code that other operations run too. */
  code?: Code
  /** Returns another handler for a request, such as that of an import. */
  findOther?(request: FastifyRequest): AnyHandler | undefined
}

declare module 'fastify' {
  interface FastifyContextConfig {
    operation?: {
      isIdempotent: boolean
      of?: CollectionOperation | undefined
      /** The steps of a write, which batches run too. */
      write?: WriteOperation | undefined
    }
  }
}

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

/** Returns the options of a route. What its schema does not say has the defaults of the documents. */
export function operation<
  const A extends RouteAccess,
  P extends TSchema = TSchema,
  Q extends TSchema = TSchema,
  B extends TSchema = TSchema,
  const I extends boolean = false,
  W extends WriteInput = WriteInput,
  F = unknown,
>(parts: Parts<A, P, Q, B, I> & Work<A, P, Q, B, I, W, F>): RouteShorthandOptionsWithHandler {
  const { access, config, leavesSlot = false, of, type, run, write, handle, ...described } = parts
  const { idempotent = false, response = {}, body, query = NO_QUERY, headers, ...schema } = described
  const { operationId = type ?? '', params } = schema
  const responses = Object.entries(response).map(([name, each]) => [
    name,
    type === undefined ? each : toResponse(name, each, type, operationId),
  ])
  const [[status, success] = ['200', undefined]] = Object.entries(response)
  const { content } = success === undefined ? {} : readResponse(status, success, operationId)
  const own = { type, status: Number(status), schema: content?.['application/json'].schema }
  // Validated by the schemas of the operation, by which the call is typed.
  const code = run as Run
  const steps: WriteOperation | undefined =
    write ?? (run && idempotent ? toWriteOperation(own, code) : undefined)
  const isIdempotent = steps?.isIdempotent === true
  const work = steps
    ? { steps, scope: of?.context ?? createOwnScope(own) }
    : { steps, handle: handle ?? createRun(own, code) }
  return {
    config: { access, ...config, operation: { isIdempotent, of, write: steps } },
    schema: {
      ...schema,
      querystring: { additionalProperties: false, ...query },
      ...((headers || isIdempotent) && {
        headers: Type.Object({ ...headers?.properties, ...(isIdempotent && idempotencyKey) }),
      }),
      ...(body && {
        body:
          type === undefined
            ? body
            : toFieldsSchema(body, { type, addressed: params?.properties?.id !== undefined }),
      }),
      ...(responses.length > 0 && { response: Object.fromEntries(responses) }),
    },
    // The handlers call `checkRequest`, which throws the validation error.
    attachValidation: true,
    handler: createHandler(work, { findOther: of?.findOther, leavesSlot }),
  }
}
