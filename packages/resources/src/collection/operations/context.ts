/** What the operations of one resource in one version share. */
import type { Connection, Database } from '@resource-api/database'
import type { MaybePromise, Values } from '@resource-api/database/internal'
import { apiError, type Violation } from '@resource-api/http'
import {
  type Actor,
  ApiError,
  type Fields,
  getClientIp,
  getLifetime,
  narrowByRow,
  prefixFields,
  type Rule,
  rewriteError,
} from '@resource-api/http/internal'
import type { FastifyInstance, FastifyReply, FastifyRequest, RouteGenericInterface } from 'fastify'
import type { Prepared, Tools } from '../code.ts'
import { requestsDryRun } from '../dry-run.ts'
import type { CollectionOptions, Handler } from '../handlers.ts'
import { createNotFound, MissingRowError, type ResourceAddress } from '../request/resource-address.ts'
import type { ListScope, Lock, Resource } from '../resource.ts'
import { createResponseBuilder } from '../response/response-builder.ts'
import type { Row } from '../store.ts'
import { getFieldNames, renameViolations } from '../version-fields.ts'
import { lockRow } from './row-locks.ts'

export type WriteHandler = Handler<{ Body: Fields }>

export type PreparedColumns = Prepared<Row, Row> | undefined

/** Returns an error that does not say which hidden field has a value that is taken: a default, or that of an action. */
function hideConflicts(error: unknown, hidden: readonly string[]): unknown {
  const isHidden = ({ code, field }: Violation) => code === 'ALREADY_EXISTS' && hidden.includes(field)
  if (!(error instanceof ApiError) || !error.violations.some(isHidden)) return error
  return rewriteError(error, ({ code, violations }) => ({
    message: apiError(code).message,
    violations: violations.filter((each) => !isHidden(each)),
  }))
}

/** The fields of the body, if they are those of the resource, and their path. */
interface Sent {
  fields?: Fields
  /** '' or 'data.attributes.' */
  prefix: string
}

export function createOperationContext(app: FastifyInstance, options: CollectionOptions, resource: Resource) {
  const { mappings } = app.resourceWriter
  const names = getFieldNames(resource, mappings)
  return {
    app,
    options,
    resource,
    builder: createResponseBuilder(app, resource, options),
    /** The references that stand in bodies, and not in the path. */
    bodyReferences: resource.references.filter(({ field }) => field !== resource.parent?.member),

    /** The names of the fields in the version. */
    names,

    /**
     * Returns an error with the fields named as they stood in the body, without those that the caller may not read.
     * @param input what was read from the body: of an action, its fields are not those of the resource
     */
    toSentError(error: unknown, { fields, prefix }: Sent, actor: Actor): unknown {
      const shown = hideConflicts(error, resource.forRole(actor.role).hidden)
      const isMapped = fields && resource.name in mappings && shown instanceof ApiError
      const named = isMapped ? rewriteError(shown, (sent) => renameViolations(sent, names)) : shown
      return prefixFields(named, prefix)
    },
  }
}

export type OperationContext = ReturnType<typeof createOperationContext>

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
  if (!row || (parent && row[parent.member] !== parentId))
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
export function recordingWriter<Route extends RouteGenericInterface>(
  { replicas }: Database,
  handler: Handler<Route>,
): Handler<Route> {
  if (!replicas) return handler
  return async (request, reply) => {
    try {
      return await handler(request, reply)
    } finally {
      const { actor } = request
      if (actor && actor.credential !== 'none' && !requestsDryRun(request))
        await replicas.recentWriters.publish(actor.userId)
    }
  }
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
