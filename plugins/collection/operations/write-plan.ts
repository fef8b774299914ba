/** Writes as plans: what a request, or an operation of a batch, checks and changes, and how a single one runs. */
import type { FastifyInstance } from 'fastify'
import type { Connection } from '../../../drizzle/client/types.ts'
import type { OnQueue } from '../../../lib/semaphore.ts'
import type { Actor } from '../../access/actor.ts'
import { getLifetime } from '../../admission/request-lifetime.ts'
import { checkRequest } from '../../validation/index.ts'
import { MissingRowError, type ResourceAddress, readAddress } from '../request/resource-address.ts'
import type { WriteCall } from '../request/write-call.ts'
import { sendWritten, type Written } from '../response/response-builder.ts'
import { getRoleTag } from '../restrictions.ts'
import { StaleRowError } from '../sql/row-change.ts'
import type { Row } from '../store.ts'
import type { OperationContext, PreparedColumns, WriteHandler } from './context.ts'
import { type RowLock, toBusyError } from './row-locks.ts'

/** The row of a creation, which can be inserted together with others. */
export interface Insertion {
  /** Checks references (422). @returns the values of the columns */
  buildValues(connection: Connection, prepared: PreparedColumns): Promise<Partial<Row>>
  toWritten(row: Row): Written
}

/** The change of a row that was found and locked, which can be written together with others. */
export interface Update {
  /** Checks what the row decides (409, 422). @returns the columns of the changed row */
  buildNext(connection: Connection, current: Row, prepared: PreparedColumns): Promise<Row>
}

/** A write that was validated. Its functions run in this order; the errors name fields as the definition does. */
export interface WritePlan<Found = unknown> {
  /** The path of the fields in the body: '' or 'data.attributes.' */
  prefix: string
  /** Whether the write may be a single statement, outside a transaction. */
  isOneStatement: boolean
  needsPreparation: boolean
  /** Whether a single statement that has not read the row can wait for no other transaction. */
  isBatchable: boolean
  /** Whether `updateUnread` may be tried. */
  isUnread: boolean
  /** The lock on the row that exists; undefined for a creation. */
  lock?: RowLock
  /** The fields of the body, if it has those of the resource. */
  fields?: Partial<Row>
  /** Present if the creation is only an insert. */
  insertion?: Insertion | undefined
  /** Present if the change is only an update. */
  update?: Update | undefined
  /**
   * Checks the caller (401); finds the row (404), which it locks if `isLocking`, and checks access to it (403).
   * @param created the row, if this transaction has created it, so that it needs no lock
   * @throws ApiError 401, 403, 404: they come before a stored response
   */
  find(connection: Connection, isLocking: boolean, created?: Row): Promise<Found>
  /** Checks before the slow work what the row decides. @throws ApiError 403, 428, 412, 409, 422 */
  check(found: Found, connection: Connection): Promise<unknown>
  /** Does slow work. @throws ApiError */
  prepare(found: Found, connection: Connection): Promise<PreparedColumns>
  /** Checks what the row decides (403, 428, 412, 409), then references (422), and writes. @throws ApiError */
  write(connection: Connection, found: Found, prepared: PreparedColumns): Promise<Written>
  /** Writes without having read the row. Resolves to undefined if the row has to be read. */
  updateUnread(connection: Connection): Promise<Written | undefined>
}

/** The parts of a plan that most writes have no use for. */
export const PLAIN_WRITE = {
  isOneStatement: false,
  needsPreparation: false,
  isBatchable: false,
  isUnread: false,
  check: async () => undefined,
  prepare: async () => undefined,
  updateUnread: async () => undefined,
} satisfies Partial<WritePlan>

export interface WriteOperation {
  /** Returns the path below the version under which an Idempotency-Key is stored. Undefined: the write needs no key. */
  getKeyPath?: (address: ResourceAddress) => string
  /** Whether the write may remove its own row, so that a retry with the key does not find it. */
  mayRemove?: boolean
  /** @throws ApiError for all that needs no query: 400, 404, 409, 422 */
  plan(call: WriteCall): WritePlan
}

/** Runs a write without an Idempotency-Key in the first way whose condition holds. */
async function runWrite<Found>(
  { database, connectionShares }: FastifyInstance,
  plan: WritePlan<Found>,
  actor: Actor,
  onQueue: OnQueue,
): Promise<Written> {
  // A single UPDATE, if SQL alone can check access and which values differ. It changes no row that does not exist, is not
  // the caller's, is locked, or has these values: the other ways find out which.
  const updateUnread = async () => (plan.isUnread ? plan.updateUnread(database) : undefined)
  if (plan.isBatchable) {
    const written = await updateUnread()
    if (written) return written
  }

  const prepared = plan.needsPreparation
    ? await plan.prepare(await plan.find(database, false), database)
    : undefined

  const write = async () => {
    if (!plan.isBatchable) {
      const written = await updateUnread()
      if (written) return written
    }

    // Read and write without a lock, if the write is one statement: it updates only the revision that was read.
    if (plan.isOneStatement) {
      try {
        return await plan.write(database, await plan.find(database, false), prepared)
      } catch (error) {
        if (!(error instanceof StaleRowError)) throw plan.lock ? toBusyError(error, plan.lock, actor) : error
      }
    }

    // Otherwise lock the row and write in one transaction.
    return database.transaction(async (tx) => plan.write(tx, await plan.find(tx, true), prepared))
  }
  // An insert that waits for no other transaction shares a connection with others.
  const isShared = plan.isBatchable && plan.isOneStatement && !plan.lock
  return isShared ? write() : connectionShares.run(actor.userId, write, onQueue)
}

/** Creates the handler of a route from its operation. */
export function createWriteHandler(
  { app, builder, options, resource, toSentError }: OperationContext,
  { getKeyPath, mayRemove = false, plan: planWrite }: WriteOperation,
): WriteHandler {
  const { database, idempotency } = app
  const { version } = options.representation

  return async (request, reply) => {
    // 1. Caller (401), Idempotency-Key (400).
    const address = readAddress(resource, request)
    const { actor } = address
    const keyPath = getKeyPath && `/api/v${version}${getKeyPath(address)}`
    const roleTag = getRoleTag(resource, actor)
    // A stored response has the fields that the role could read, so that another role gets 422.
    const content = roleTag === '' ? request.body : [request.body, roleTag]
    const key = keyPath === undefined ? undefined : idempotency.readKey(request, actor, keyPath, content)

    // 2. What Fastify has validated: the form of the body (400), no query string (400), the fields (422), the path (404).
    const plan = planWrite({
      isAlone: true,
      request,
      reply,
      address,
      body: request.body,
      preconditions: request.headers,
      check: (findViolations) => checkRequest(request, findViolations),
    })
    const { onQueue } = getLifetime(reply.raw)
    const respond = (written: Written) => builder.buildResponse(request, reply, actor, written)

    try {
      // 3. With an Idempotency-Key, once: the change and the stored response commit together.
      const response = key
        ? await idempotency.once(key, {
            find: plan.find,
            isReplayedAfter: (error) => mayRemove && error instanceof MissingRowError,
            prepare: plan.needsPreparation ? (found) => plan.prepare(found, database) : undefined,
            write: async (tx, found, prepared) => respond(await plan.write(tx, found, prepared)),
            onQueue,
          })
        : respond(await runWrite(app, plan, actor, onQueue))
      // 4. The response.
      return await sendWritten(request, reply, actor, response)
    } catch (error) {
      throw toSentError(error, plan.prefix, actor)
    }
  }
}
