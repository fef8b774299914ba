/** Collects the operations of an app, from the schemas of its routes. */
import { type Operation, readOperation } from '@resource-api/api/documents'
import { describeAccess } from '@resource-api/resources/internal'
import type { FastifyInstance, RouteOptions } from 'fastify'

/**
 * Collects the routes that are registered later.
 * @returns a function that reads their operations, when later hooks have added to their schemas
 */
export function collectOperations(app: FastifyInstance): () => Operation[] {
  const routes: RouteOptions[] = []
  let operations: Operation[] | undefined
  app.addHook('onRoute', (route) => void routes.push(route))
  return () => {
    operations ??= routes.flatMap(({ method, url, schema, config = {} }) =>
      typeof method !== 'string' || method === 'HEAD' || !schema || schema.hide
        ? []
        : readOperation({ method, url }, describeAccess(app, schema, config), config.access),
    )
    return operations
  }
}
