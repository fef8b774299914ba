/** What the operations of one resource in one version share. */
import type { FastifyInstance } from 'fastify'
import { rewriteError } from '../../errors/index.ts'
import type { Fields } from '../../validation/schema-functions.ts'
import type { SentBody } from '../../versioning/representation/types.ts'
import type { CollectionOptions, Handler } from '../options.ts'
import type { ListQuery, Selection } from '../request/list-query.ts'
import { createResourceAddresses } from '../request/resource-address.ts'
import type { Resource } from '../resource.ts'
import { createResponseBuilder } from '../response/response-builder.ts'
import { applyVersion } from '../versions.ts'

/** Handlers get requests as the schemas of their routes say: see plugins/validation. */
export type ListHandler = Handler<{ Querystring: ListQuery }>
export type ReadHandler = Handler<{ Querystring: Selection }>
export type WriteHandler = Handler<{ Body: SentBody<Fields> }>

export function createOperationContext(app: FastifyInstance, options: CollectionOptions, compiled: Resource) {
  const resource = applyVersion(compiled, options.representation.version)
  const { names } = resource
  return {
    app,
    options,
    resource,
    addresses: createResourceAddresses(resource),
    builder: createResponseBuilder(resource, options.representation),

    /**
     * Returns an error with the fields named as they stood in the body.
     * @param prefix of the fields in the body
     */
    toSentError: (error: unknown, prefix: string): unknown =>
      rewriteError(names ? names.translateError(error) : error, ({ violations }) => ({
        violations: violations.map((each) => ({ ...each, field: `${prefix}${each.field}` })),
      })),
  }
}

export type OperationContext = ReturnType<typeof createOperationContext>
