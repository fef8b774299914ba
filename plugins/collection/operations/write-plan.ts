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
import type { Row } from '../store.ts'
import type { OperationContext, PreparedColumns, WriteHandler } from './context.ts'
import type { RowLock } from './row-locks.ts'

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

/** A write that one statement may decide, outside a transaction. */
interface OneStatement {
  /** Whether it can wait for another transaction. */
  canWait: boolean
  /**
   * Writes without having read the row.
   * @returns undefined if the row has to be read
   * @throws ApiError as `find` and `write` do
   */
  run(connection: Connection, prepared?: PreparedColumns): Promise<Written | undefined>
}

/** A write that was validated. Its functions run in this order; the errors name fields as the definition does. */
export interface WritePlan<Found = unknown> {
  /** The path of the fields in the body: '' or 'data.attributes.' */
  prefix: string
  /** Present if one statement may decide everything. */
  statement?: OneStatement | undefined
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
   * @throws ApiError 401, 403, 404: they come before a stored response
   */
  find(connection: Connection, isLocking: boolean): Promise<Found>
  /** Present if the write needs slow work, before its transaction. */
  slow?: SlowWork<Found> | undefined
  /** Checks what the row decides (403, 428, 412, 409), then references (422), and writes. @throws ApiError */
  write(connection: Connection, found: Found, prepared?: PreparedColumns): Promise<Written>
}

/** Work for which no transaction waits, such as hashing a password. */
interface SlowWork<Found> {
  /** Checks what the row decides. @throws ApiError 403, 428, 412, 409, 422 */
  check(found: Found, connection: Connection): Promise<unknown>
  /** @throws ApiError */
  run(found: Found, connection: Connection): Promise<PreparedColumns>
}

export interface WriteOperation {
  /** Returns the path below the version under which an Idempotency-Key is stored. Undefined: the write needs no key. */
  getKeyPath?: (address: ResourceAddress) => string
  /** Whether the write may remove its own row, so that a retry with the key does not find it. */
  mayRemove?: boolean
  /** @throws ApiError for all that needs no query: 400, 404, 409, 422 */
  plan(call: WriteCall): WritePlan
}

/** Runs a write without an Idempotency-Key: as one statement, or in a transaction that locks the row, checks, and writes. */
async function runWrite<Found>(
  { database, connectionShares }: FastifyInstance,
  { find, slow, statement, write }: WritePlan<Found>,
  actor: Actor,
  onQueue: OnQueue,
): Promise<Written> {
  const prepared = slow && (await slow.run(await find(database, false), database))
  const runStatement = () => statement?.run(database, prepared)
  // What waits for no other transaction shares a connection with the requests of others.
  const written = statement && !statement.canWait ? await runStatement() : undefined
  if (written) return written
  const writeLocked = () => database.transaction(async (tx) => write(tx, await find(tx, true), prepared))
  const run = async () => (statement?.canWait ? await runStatement() : undefined) ?? writeLocked()
  return connectionShares.run(actor.userId, run, onQueue)
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
    const { slow } = plan
    const { onQueue } = getLifetime(reply.raw)
    const respond = (written: Written) => builder.buildResponse(request, reply, actor, written)

    try {
      // 3. With an Idempotency-Key, once: the change and the stored response commit together.
      const response = key
        ? await idempotency.once<unknown, PreparedColumns>(key, {
            find: plan.find,
            isReplayedAfter: (error) => mayRemove && error instanceof MissingRowError,
            prepare: slow && ((found) => slow.run(found, database)),
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
