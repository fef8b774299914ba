/** The writes that batches can run, by method and path. */
import { compileBody, compileParams, type Validated } from '@resource-api/api/validation'
import type { TSchema } from '@sinclair/typebox'
import type { RouteOptions } from 'fastify'
import createRouter from 'find-my-way'
import { batchMethods, MAX_PATH_LENGTH } from '../schemas/batches.ts'
import type { OperationContext } from './context.ts'
import type { WriteOperation } from './write-operation.ts'

export type BatchMethod = (typeof batchMethods)[number]

type Validator = (sent: unknown) => Validated

interface WriteRouteOptions {
  context: OperationContext
  operation: WriteOperation
  /** The name of the operation or action. */
  name: string
  /** Its schema has the body, in the envelope of the version when the route is registered. */
  route: Pick<RouteOptions, 'config' | 'schema'>
}

export interface WriteRoute extends WriteRouteOptions {
  /** Whether it creates a resource of the collection. */
  isCreation: boolean
  /** The schema of the path. */
  params: TSchema
  /** The schema of the body; undefined if the request has none. */
  readonly body: TSchema | undefined
  readParams: Validator
  readBody: Validator
}

/** Compiles a validator at its first use: most resources are written by single requests only. */
function compileLater(compile: () => Validator): Validator {
  let validate: Validator | undefined
  return (sent) => {
    validate ??= compile()
    return validate(sent)
  }
}

export class WriteRoutes {
  /** Fastify's own router, so that paths are read as those of requests are. */
  readonly #router = createRouter({ ignoreTrailingSlash: true, maxParamLength: MAX_PATH_LENGTH })
  /** By the handlers of the router. */
  readonly #routes = new Map<unknown, WriteRoute>()

  add(method: BatchMethod, url: string, options: WriteRouteOptions): void {
    const { name, route } = options
    const handler = () => {}
    this.#router.on(method, url, handler)
    // Fastify accepts any schema; those of operations are of TypeBox.
    const params = route.schema?.params as TSchema
    const getBody = () => route.schema?.body as TSchema | undefined
    this.#routes.set(handler, {
      ...options,
      isCreation: name === 'create',
      params,
      get body() {
        return getBody()
      },
      readParams: compileLater(() => compileParams(params)),
      readBody: compileLater(() => {
        const body = getBody()
        return body ? compileBody(body) : () => ({ value: undefined })
      }),
    })
  }

  find(
    method: BatchMethod,
    path: string,
  ): { route: WriteRoute; params: Record<string, string | undefined> } | null | undefined {
    // The router would read a query string and the path of a URL, which operations do not have, and an empty id.
    if (/^[^/]|\/\/|[?#;]/.test(path)) return undefined
    const found = this.#router.find(method, path)
    const route = this.#routes.get(found?.handler)
    return found && route && { route, params: found.params }
  }

  /** Returns the methods of a path. */
  listMethods = (path: string): BatchMethod[] => batchMethods.filter((method) => this.find(method, path))
}
