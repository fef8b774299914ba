/** What the operations of one resource in one version share. */
import type { Actor } from '@resource-api/api/actor'
import { ApiError, apiError, prefixFields, rewriteError, type Violation } from '@resource-api/api/errors'
import { readPrecondition } from '@resource-api/api/preconditions'
import { getLifetime } from '@resource-api/api/requests'
import { narrowByRow, type Rule } from '@resource-api/api/rules'
import type { Connection, Database } from '@resource-api/database'
import type { Values } from '@resource-api/database/client'
import type { MaybePromise } from '@resource-api/database/concurrency'
import { getClientIp } from '@resource-api/http/internal'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Tools } from '../definition/code.ts'
import type { CollectionOptions } from '../definition/handlers.ts'
import type { ListScope, Lock, Resource } from '../definition/resource.ts'
import { getRoleTag } from '../definition/role-schemas.ts'
import type { Row } from '../definition/store.ts'
import { requestsDryRun } from '../dry-run.ts'
import { jsonFormat } from '../idempotency/index.ts'
import {
  createNotFound,
  MissingRowError,
  type ResourceAddress,
  readAddress,
} from '../request/resource-address.ts'
import { getFieldNames, renameViolations } from '../request/version-fields.ts'
import type { WriteCall } from '../request/write-call.ts'
import { createResponseBuilder, type ResourcePaths, type Written } from '../response/response-builder.ts'
import { lockRow } from './row-locks.ts'
import type { Sent } from './write-operation.ts'

/** An absent body means the same, where it may be absent. */
const NO_BODY = {}

/** Returns an error that does not say which hidden field has a value that is taken: a default, or that of an action. */
function hideConflicts(error: unknown, hidden: readonly string[]): unknown {
  const isHidden = ({ code, field }: Violation) => code === 'ALREADY_EXISTS' && hidden.includes(field)
  if (!(error instanceof ApiError) || !error.violations.some(isHidden)) return error
  return rewriteError(error, ({ code, violations }) => ({
    message: apiError(code).message,
    violations: violations.filter((each) => !isHidden(each)),
  }))
}

export function createOperationContext(app: FastifyInstance, options: CollectionOptions, resource: Resource) {
  const { mappings } = app.resourceWriter
  const names = getFieldNames(resource, mappings)
  const paths: ResourcePaths = {}
  const builder = createResponseBuilder(app, resource, options, paths)
  return {
    app,
    options,
    resource,
    paths,
    builder,
    /** The references that stand in bodies, and not in the path. */
    bodyReferences: resource.references.filter(({ field }) => field !== resource.parent?.member),

    /** The names of the fields in the version. */
    names,

    readAddress: (request: FastifyRequest) => readAddress(resource, request),

    /** A stored response has the fields that the role could read, so that another role gets 422. */
    getKeyContent({ body }: FastifyRequest, actor: Actor): unknown {
      const roleTag = getRoleTag(resource, actor)
      return roleTag === '' ? (body ?? NO_BODY) : [body ?? NO_BODY, roleTag]
    },

    buildResponse: (request: FastifyRequest, _reply: FastifyReply, actor: Actor, written: Written) =>
      builder.buildResponse(request, actor, written),

    format: jsonFormat<unknown>(),

    /**
     * Returns the error of a request, also for what the database refused to own code or at the commit. Its fields are named as
     * they stood in the body, without those that the caller may not read.
     * @param input what was read from the body: of an action, its fields are not those of the resource
     */
    toSentError(error: unknown, { fields, prefix }: Sent, actor: Actor): unknown {
      const refusal = resource.stores.toApiError(error)
      const shown = hideConflicts(refusal, resource.forRole(actor.role).hidden)
      const isMapped = fields && resource.name in mappings && shown instanceof ApiError
      const named = isMapped ? rewriteError(shown, (sent) => renameViolations(sent, names)) : shown
      return prefixFields(named, prefix)
    },
  }
}

/** A resource in one version: what its operations have in common. */
export type OperationContext = ReturnType<typeof createOperationContext>

/** The same with the types of its rows and bodies, which the code of its routes has. */
export interface VersionedResource<R = Row, C = Record<string, unknown>, U = Record<string, unknown>>
  extends OperationContext {
  /** For the compiler alone: no value has it. */
  readonly types?: { row: R; create: C; change: U }
}

/** Returns whether a rule permits a row to the caller: as it was, or as it becomes. */
export function isPermitted(
  { select }: Pick<Resource, 'select'>,
  connection: Connection,
  row: Values,
  { rule, actor }: Pick<ListScope, 'rule' | 'actor'>,
): MaybePromise<boolean> {
  const open = narrowByRow(rule, row, actor)
  if (typeof open === 'boolean') return open
  return select.findPermitted(connection, open, [row], [actor.userId]).then(({ length }) => length > 0)
}

/** Returns the function that checks the preconditions of a call on a row (412, 428); undefined if there are none. */
export const readRowPrecondition = (
  { builder, options }: OperationContext,
  { preconditions, request }: WriteCall,
) =>
  readPrecondition<Row>(preconditions, options.requireIfMatch, {
    getTag: (row) => builder.getTag(request, row),
    getUpdatedAt: builder.getUpdatedAt,
  })

/**
 * Returns the row of an address, which the caller may write.
 * @param rule the rows that the caller may write
 * @param lock on the row, if the rule permits it, and on the caller of a resource with `bearerOnly`, until the transaction
 *   ends
 * @throws ApiError 401 if the caller has signed out; 404 if the row does not exist; 403, or 404 with HIDE_FORBIDDEN, if
 *   the caller may not write it
 */
export async function findRow(
  { app, resource }: OperationContext,
  connection: Connection,
  { id, actor, parent: parentId }: ResourceAddress,
  rule: Rule,
  lock?: Lock,
): Promise<Row> {
  const { bearerOnly, parent, select } = resource
  if (bearerOnly && lock) await app.callers.lock(connection, actor)
  const locked =
    lock && rule !== false ? await lockRow(resource, connection, { id, mode: lock, rule }, actor) : undefined
  const row = locked ?? (lock && rule === true ? undefined : await select.whole(connection, id))
  // PostgreSQL takes other texts for the same value, such as those in another letter case of a citext.
  if (!row || row.id !== id || (parent && row[parent.member] !== parentId))
    throw new MissingRowError(createNotFound(resource, id))
  if (locked ?? (!lock && (await isPermitted(resource, connection, row, { rule, actor })))) return row
  throw app.refusal(() => createNotFound(resource, id))
}

/** Returns the replica for a request; undefined if the resource or one that it includes is read from the primary. */
export function getReplica(
  replicas: NonNullable<Database['replicas']>,
  resource: Resource,
  actor: Actor,
  include: readonly string[],
): Connection | undefined {
  const read = [resource, ...include.map((name) => resource.relations[name]?.to)]
  return read.some((each) => each?.readsPrimary) ? undefined : replicas.getReader(actor.userId)
}

/**
 * Records the caller of a write, so that later reads follow it. It does so before the response is sent, since the next
 * request may be a read, and also after a failure, since the write may have been committed.
 */
export async function recordWriter(
  { recentWriters }: NonNullable<Database['replicas']>,
  request: FastifyRequest,
): Promise<void> {
  const { actor } = request
  if (actor && actor.credential !== 'none' && !requestsDryRun(request))
    await recentWriters.publish(actor.userId)
}

/** Creates what slow work of an action may use while the client waits. */
export const createTools = (
  { callers, limits }: FastifyInstance,
  request: FastifyRequest,
  reply: FastifyReply,
  actor: Actor,
): Tools => ({
  // A sign-up has no user yet: sign-ups from one address wait for each other.
  passwords: callers.getPasswords(
    actor.credential === 'none' ? getClientIp(request) : actor.userId,
    getLifetime(reply.raw),
  ),
  attempt: (account, verify) => limits.confirmPassword(request, actor.userId, account, verify),
})
