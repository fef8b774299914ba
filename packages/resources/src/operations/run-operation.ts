/** Runs the requests of operations. Each function reads top to bottom, in the order of the errors. */
import type { Actor } from '@resource-api/api/actor'
import { getLifetime } from '@resource-api/api/requests'
import { checkRequest, openBody } from '@resource-api/api/validation'
import type { Connection } from '@resource-api/database'
import type { TSchema } from '@sinclair/typebox'
import type { FastifyInstance, FastifyReply, FastifyRequest, RouteHandlerMethod } from 'fastify'
import type { AnyHandler } from '../definition/handlers.ts'
import { requestsDryRun } from '../dry-run.ts'
import type { Work } from '../idempotency/once.ts'
import type { IdempotencyKey } from '../idempotency/stored-responses.ts'
import { MissingRowError } from '../request/resource-address.ts'
import { respondWritten, type Written } from '../response/response-builder.ts'
import { recordWriter } from './context.ts'
import type { RowWrite, WriteInput, WriteOperation, WriteScope } from './write-operation.ts'

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

/**
 * Runs work in one transaction: with a key at most once, for which a retry gets the stored response; of a dry run, the
 * transaction is rolled back.
 */
export const runOnce = <Found, Prepared, Result>(
  request: FastifyRequest,
  reply: FastifyReply,
  actor: Actor,
  key: IdempotencyKey | undefined,
  work: Omit<Work<Found, Prepared, Result>, 'isDryRun'>,
) =>
  request.server.idempotency.run(key, actor, {
    isDryRun: requestsDryRun(request),
    onQueue: getLifetime(reply.raw).onQueue,
    ...work,
  })

/** Handles the write of a request. */
async function handleWrite<Input extends WriteInput, Found>(
  scope: WriteScope,
  operation: WriteOperation<Input, Found>,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<unknown> {
  // 1. Caller (401), Idempotency-Key (400).
  const { headers, routeOptions, server } = request
  const address = scope.readAddress(request)
  const { actor } = address
  const key =
    operation.isIdempotent && headers['idempotency-key'] !== undefined
      ? server.idempotency.readKey(request, actor, scope.getKeyContent(request, actor))
      : undefined

  // 2. What Fastify has validated: the form of the body (400), no query string (400), the fields (422), the path (404).
  const input = operation.read({
    isAlone: true,
    request,
    reply,
    address,
    // The schema of the route is of TypeBox.
    open: (id) => openBody(routeOptions.schema?.body as TSchema | undefined, Object(request.body), id),
    preconditions: headers,
    check: (findViolations) => checkRequest(request, findViolations),
  })

  try {
    // 3. With an Idempotency-Key, once: the change and the stored response commit together.
    const response =
      key || requestsDryRun(request)
        ? await runOnce(request, reply, actor, key, {
            find: (connection, isLocking) => operation.find(connection, input, isLocking),
            isReplayedAfter: (error) => operation.mayRemove === true && error instanceof MissingRowError,
            ...(operation.prepare && {
              prepare: async (found: Found) => operation.prepare?.(server.database, input, found),
            }),
            write: async (tx, found, prepared) =>
              scope.buildResponse(
                request,
                reply,
                actor,
                await writeOne(operation, tx, { input, found, prepared }),
              ),
            format: scope.format,
          })
        : scope.buildResponse(request, reply, actor, await runWrite(server, operation, input))
    // 4. The response.
    return await respondWritten(request, reply, actor, response)
  } catch (error) {
    throw scope.toSentError(error, input, actor)
  }
}

/** What a route runs: the steps of a write, or a handler. */
type RouteWork = { steps: WriteOperation; scope: WriteScope } | { steps: undefined; handle: AnyHandler }

interface RouteOptions {
  /** Returns another handler for a request, such as that of an import. */
  findOther?: ((request: FastifyRequest) => AnyHandler | undefined) | undefined
  leavesSlot: boolean
}

/** Creates the handler of a route. */
export const createHandler = (work: RouteWork, { findOther, leavesSlot }: RouteOptions): RouteHandlerMethod =>
  // Fastify types a handler by the schema of its route; both come from the same parts.
  (async (request, reply) => {
    const { concurrency, database } = request.server
    // 1. Nothing is done for a client that has gone. The request keeps its slot until its work ends.
    const slot = leavesSlot ? null : concurrency.hold(request, reply)
    try {
      // 2. The work: one creation or, at the same address, an import.
      const other = findOther?.(request)
      if (other) return await other(request, reply)
      if (work.steps) return await handleWrite(work.scope, work.steps, request, reply)
      return await work.handle(request, reply)
    } finally {
      // 3. Later reads of the user follow the write.
      if (database.replicas && request.method !== 'GET' && request.method !== 'HEAD')
        await recordWriter(database.replicas, request)
      if (slot) concurrency.release(slot)
    }
  }) satisfies AnyHandler as unknown as RouteHandlerMethod
