/** A write of resources as an operation, and how a request of its own runs it. Batches and imports run the same ones. */
import type { Connection } from '@resource-api/database'
import {
  checkRequest,
  type Fields,
  getLifetime,
  openBody,
  type ResourceResult,
} from '@resource-api/http/internal'
import type { TSchema } from '@sinclair/typebox'
import type { FastifyInstance } from 'fastify'
import { jsonFormat } from '../../idempotency/index.ts'
import { requestsDryRun } from '../dry-run.ts'
import { MissingRowError, type ResourceAddress, readAddress } from '../request/resource-address.ts'
import type { WriteCall } from '../request/write-call.ts'
import { respondWritten, type Written } from '../response/response-builder.ts'
import { getRoleTag } from '../role-schemas.ts'
import type { OperationContext, PreparedColumns, WriteHandler } from './context.ts'
import type { RowLock } from './row-locks.ts'

/** What an operation has read from a call. */
export interface WriteInput {
  call: WriteCall
  /** The path of the fields in the body: '' or 'data.attributes.' */
  prefix: string
  /** The fields of the body, if it has those of the resource. */
  fields?: Fields
}

/** The write of one row. */
export interface RowWrite<Input, Found> {
  input: Input
  found: Found
  prepared: PreparedColumns
}

/** The steps of a write, in their order. Errors name fields as the definition does. */
export interface WriteOperation<Input extends WriteInput = WriteInput, Found = unknown> {
  /** Returns the path below the version under which an Idempotency-Key is stored. Undefined: the write needs no key. */
  getKeyPath?: (address: ResourceAddress) => string
  /** Whether the write may remove its own row, so that a retry with the key does not find it. */
  mayRemove?: boolean
  /** Whether the row may be written together with those of other calls, by one statement. */
  isJoined?(input: Input): boolean
  /** Checks all that needs no query. @throws ApiError 400, 404, 409, 422 */
  read(call: WriteCall): Input
  /** Returns the lock on the row of the address; a creation has none. */
  getLock?(input: Input): RowLock
  /**
   * Checks the caller (401); finds the row (404), which it locks if `isLocking`, and checks access to it (403).
   * @throws ApiError 401, 403, 404: they come before a stored response
   */
  find(connection: Connection, input: Input, isLocking: boolean): Promise<Found>
  /** Does slow work, such as hashing a password, for which no transaction waits. @throws ApiError */
  prepare?(connection: Connection, input: Input, found: Found): Promise<PreparedColumns>
  /** Checks what the rows decide (403, 428, 412, 409), then references (422), and writes the rows. @throws ApiError */
  write(connection: Connection, writes: readonly RowWrite<Input, Found>[]): Promise<Written[]>
  /** Whether `find` and `write` are one statement, which needs no transaction. */
  isOneStatement?(input: Input): boolean
  /**
   * Finds and writes by one statement, which waits for no other transaction.
   * @returns undefined if it cannot
   */
  writeAtOnce?(connection: Connection, input: Input): Promise<Written | undefined>
}

/** An absent body means the same, where it may be absent. */
const NO_BODY = {}

async function writeOne<Input extends WriteInput, Found>(
  operation: WriteOperation<Input, Found>,
  connection: Connection,
  write: RowWrite<Input, Found>,
): Promise<Written> {
  const [written] = await operation.write(connection, [write])
  if (!written) throw new Error('A write has no result')
  return written
}

/** Runs a write without an Idempotency-Key: as one statement, or in a transaction that locks the row, checks, and writes. */
async function runWrite<Input extends WriteInput, Found>(
  { database, connectionShares }: FastifyInstance,
  operation: WriteOperation<Input, Found>,
  input: Input,
): Promise<Written> {
  const { address, reply } = input.call
  const written = await operation.writeAtOnce?.(database, input)
  if (written) return written
  const prepared = await operation.prepare?.(database, input, await operation.find(database, input, false))
  const write = async (connection: Connection, isLocking: boolean) => {
    const found = await operation.find(connection, input, isLocking)
    return writeOne(operation, connection, { input, found, prepared })
  }
  const run = () =>
    operation.isOneStatement?.(input) ? write(database, false) : database.transaction((tx) => write(tx, true))
  return connectionShares.run(address.actor.userId, run, getLifetime(reply.raw).onQueue)
}

/** Creates the handler of a route from its operation. */
export function createWriteHandler<Input extends WriteInput, Found>(
  { app, builder, resource, toSentError }: OperationContext,
  operation: WriteOperation<Input, Found>,
): WriteHandler {
  const { database, idempotency } = app
  const { version } = app.resourceWriter
  const { getKeyPath, mayRemove = false } = operation

  return async (request, reply) => {
    // 1. Caller (401), Idempotency-Key (400).
    const address = readAddress(resource, request)
    const { actor } = address
    const { routeOptions } = request
    const keyPath = getKeyPath && `/api/v${version}${getKeyPath(address)}`
    const roleTag = getRoleTag(resource, actor)
    // A stored response has the fields that the role could read, so that another role gets 422.
    const body = request.body ?? NO_BODY
    const content = roleTag === '' ? body : [body, roleTag]
    const key = keyPath === undefined ? undefined : idempotency.readKey(request, actor, keyPath, content)

    // 2. What Fastify has validated: the form of the body (400), no query string (400), the fields (422), the path (404).
    const input = operation.read({
      isAlone: true,
      request,
      reply,
      address,
      // The schema of the route is of TypeBox.
      open: (id) => openBody(routeOptions.schema?.body as TSchema | undefined, request.body, id),
      preconditions: request.headers,
      check: (findViolations) => checkRequest(request, findViolations),
    })
    const respond = (written: Written) => builder.buildResponse(request, actor, written)

    try {
      // 3. With an Idempotency-Key, once: the change and the stored response commit together.
      const isDryRun = requestsDryRun(request)
      const response =
        key || isDryRun
          ? await idempotency.run<Found, PreparedColumns, ResourceResult | undefined>(key, actor, {
              find: (connection, isLocking) => operation.find(connection, input, isLocking),
              isReplayedAfter: (error) => mayRemove && error instanceof MissingRowError,
              ...(operation.prepare && {
                prepare: async (found) => operation.prepare?.(database, input, found),
              }),
              write: async (tx, found, prepared) =>
                respond(await writeOne(operation, tx, { input, found, prepared })),
              format: jsonFormat(),
              isDryRun,
              onQueue: getLifetime(reply.raw).onQueue,
            })
          : respond(await runWrite(app, operation, input))
      // 4. The response.
      return await respondWritten(request, reply, actor, response)
    } catch (error) {
      throw toSentError(error, input, actor)
    }
  }
}
