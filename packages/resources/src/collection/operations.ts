/** Completes the routes of a scope: their handlers, and what the documents say of their access. */
import { roles } from '@resource-api/database/internal'
import { getIncludingScope, toGuard } from '@resource-api/http/internal'
import { type TObject, Type } from '@sinclair/typebox'
import type { FastifyContextConfig, FastifyInstance, FastifySchema, RouteOptions } from 'fastify'
import fp from 'fastify-plugin'
import { describeRule } from './openapi/operations.ts'
import { idempotencyKey } from './openapi/parameters.ts'
import type { AnyHandler } from './operation-handler.ts'
import { recordingWriter } from './operations/context.ts'

interface Completion {
  schema: FastifySchema
  config?: FastifyContextConfig
  handler: AnyHandler
  leavesSlot?: boolean
}

/** Completes a route: it holds a slot of the caller's concurrency, and a write records that the user has written. */
export function completeRoute(
  { concurrency, database }: FastifyInstance,
  route: RouteOptions,
  { schema, config, handler, leavesSlot = false }: Completion,
): void {
  const isRead = route.method === 'GET' || route.method === 'HEAD'
  const recorded = isRead ? handler : recordingWriter(database, handler)
  route.schema = schema
  Object.assign(route.config ?? {}, config)
  // Fastify types a handler by the schema of its route; both come from the same function.
  route.handler = (leavesSlot
    ? recorded
    : concurrency.holdDuring(recorded)) as unknown as typeof route.handler
}

/** Describes in the documents what the access of an operation requires, and the Idempotency-Key that it honors. */
function describeOperation(app: FastifyInstance, route: RouteOptions, isIdempotent: boolean): FastifySchema {
  const { access } = route.config ?? {}
  // Fastify accepts any schema; those of routes are of TypeBox.
  const schema = (route.schema ?? {}) as { headers?: TObject; params?: unknown } & FastifySchema
  const headers = isIdempotent && {
    headers: Type.Object({ ...schema.headers?.properties, ...idempotencyKey }),
  }
  const guard = access === undefined || schema.security ? undefined : toGuard(app.guards, access)
  if (!guard) return { ...schema, ...headers }
  const { credential, rules } = guard
  const including = credential === null ? undefined : getIncludingScope(credential)
  const needed =
    credential === null
      ? 'Requires a Bearer token; API keys are not accepted.'
      : `An API key needs the scope \`${credential}\`${
          including !== undefined && app.scopes.has(including)
            ? ` or \`${including}\`, which includes it`
            : ''
        }.`
  const byRole = roles.toReversed().map((role) => `${role}: ${describeRule(rules[role])}`)
  const text = `${needed} By role: ${byRole.join('; ')}.`
  return {
    ...schema,
    description: schema.description === undefined ? text : `${schema.description}\n\n${text}`,
    ...(credential === null
      ? { security: [{ bearer: [] }] }
      : { security: [{ apiKey: [] }, { bearer: [] }], 'x-required-scopes': [credential] }),
    ...headers,
  }
}

async function operations(app: FastifyInstance) {
  app.addHook('onRoute', (route) => {
    const { allow, collectionRoute, operation } = route.config ?? {}
    const { method, routePath } = route
    // Those of collections are completed by their own plugin; other methods of a path are 405.
    if (collectionRoute || allow !== undefined) return
    if (!operation) {
      const call = `app.${String(method).toLowerCase()}('${routePath}', operation({ access, run }))`
      throw new Error(`${method} ${route.url} is no operation; write ${call}`)
    }
    const { isIdempotent, leavesSlot } = operation
    if (isIdempotent && method !== 'POST' && method !== 'PATCH')
      throw new Error(`${method} ${route.url}: an idempotent operation is for POST and PATCH`)
    completeRoute(app, route, {
      schema: describeOperation(app, route, isIdempotent),
      handler: operation.createHandler(app),
      leavesSlot,
    })
  })
}

export default fp(operations, { name: 'operations', dependencies: ['resources'] })
