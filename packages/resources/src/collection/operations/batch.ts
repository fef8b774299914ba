/** Runs the planned operations of a batch: the writes of single requests, all in one transaction. */
import type { Connection, Database } from '@resource-api/database'
import { SqlError, type Transaction } from '@resource-api/database/internal'
import { invalidBody } from '@resource-api/http'
import { type Actor, ApiError, createViolation, disconnected, getLifetime } from '@resource-api/http/internal'
import { getTableName } from 'drizzle-orm'
import { MAX_PAGE_BYTES } from '../reply-size.ts'
import { MissingRowError } from '../request/resource-address.ts'
import type { WrittenTexts } from '../response/response-builder.ts'
import type { BatchRequest, PlannedOperation } from './batch-plan.ts'
import { lockBatch } from './row-locks.ts'
import { findOne, prepareOne, takeJoined, toJointError, toOwnViolations, writeMany } from './write-many.ts'

type Planned = readonly PlannedOperation[]

/** Returns the error of an operation as that of the batch. */
function toBatchError(error: unknown, { index, input, route }: PlannedOperation, actor: Actor): unknown {
  const prefix = `operations.${index}.body.${input.prefix}`
  const sent = route.context.toSentError(error, { ...input, prefix }, actor)
  if (!(sent instanceof ApiError)) return sent
  const { code, message, status, cause } = sent
  const retryAfter = sent.headers['Retry-After']
  // The other headers, such as ETag, would be those of the resource.
  return new ApiError(code, {
    message,
    status,
    cause,
    violations: toOwnViolations(sent, `operations.${index}`),
    ...(retryAfter !== undefined && { retryAfter: Number(retryAfter) }),
  })
}

/** Returns the error of the end of the transaction: a deferred constraint is one of all operations together. */
export function toEndError(error: unknown, planned: Planned, actor: Actor): unknown {
  if (!(error instanceof SqlError)) return error
  const isOwn = ({ route }: PlannedOperation) => getTableName(route.context.resource.table) === error.table
  const { context } = (planned.find(isOwn) ?? planned[0])?.route ?? {}
  return toJointError(context?.toSentError(error, { prefix: '' }, actor), 'operations')
}

/** Does the slow work that needs no earlier operation of the batch, once, before the transaction begins. */
export async function prepareBatch(database: Database, planned: Planned): Promise<void> {
  const targets = new Set<string>()
  for (const each of planned) {
    const isFirst = !targets.has(each.target)
    targets.add(each.target)
    if (!each.operation.prepare || !isFirst) continue
    try {
      const found = await findOne(database, each, false)
      // An operation before it may fail first; those after it do not run.
      if ((await prepareOne(database, each, found)).error) return
    } catch (error) {
      // An operation before it may change that.
      if (!(error instanceof ApiError)) throw error
    }
  }
}

/**
 * Checks access to what a stored response of a batch shows, as a single request is checked before its stored response.
 * Its operations have the ids of that response. A removal shows nothing, and may have removed rows of the others.
 * @throws ApiError 404 if a row was removed since, 403 if the caller may no longer write it, or create one like it
 */
export async function checkStoredBatch(connection: Connection, planned: Planned, actor: Actor) {
  const mayRemove = planned.some(({ operation }) => operation.mayRemove)
  for (const each of planned) {
    if (each.method === 'DELETE') continue
    await findOne(connection, each, false).catch((error) => {
      if (!mayRemove || !(error instanceof MissingRowError)) throw toBatchError(error, each, actor)
    })
  }
}

/** Locks the rows that exist, if they are several: another batch may have the same ones in another order. */
async function lockRows(tx: Transaction, planned: Planned, actor: Actor): Promise<void> {
  const created = new Set(planned.flatMap(({ operation, target }) => (operation.getLock ? [] : target)))
  const writes = planned.map(({ error, input, operation, route, target }) => ({
    resource: route.context.resource,
    lock: error || created.has(target) ? undefined : operation.getLock?.(input),
    fields: input.fields,
  }))
  if (writes.length > 1) await lockBatch(tx, writes, actor)
}

/**
 * Writes a batch in a transaction that its caller opens.
 * @param isMinimal whether the results have no resources
 * @returns the results, in the order of the operations
 * @throws ApiError of the first operation that fails; 422 if the results are larger than a page of a list may be
 */
export async function writeBatch(
  tx: Transaction,
  { actor, reply, request }: BatchRequest,
  planned: Planned,
  isMinimal: boolean,
): Promise<WrittenTexts[]> {
  // Operations of other collections see what the hooks of the earlier ones do.
  const runsHooks = new Set(planned.map(({ route }) => route.context.resource)).size > 1
  const onError = (error: unknown, each: PlannedOperation) => {
    throw toBatchError(error, each, actor)
  }
  const results: WrittenTexts[] = []
  let bytes = 0
  await lockRows(tx, planned, actor)
  while (results.length < planned.length) {
    if (!getLifetime(reply.raw).isAwaited) throw disconnected
    const group = takeJoined(planned, results.length)
    const all = await writeMany(tx, group, { onError, runsHooks })
    for (const { route } of group) {
      const [written] = all.splice(0, 1)
      if (!written) throw new Error('An operation of a batch has no result')
      const result = route.context.builder.buildResult(request, actor, written, isMinimal)
      bytes += Buffer.byteLength(result.text)
      // Before the next operation: together, the results could be too large for the memory.
      if (bytes > MAX_PAGE_BYTES) {
        const message = 'have results of more than 8 MiB; send fewer, or Prefer: return=minimal'
        throw invalidBody([createViolation('operations', message, 'OUT_OF_RANGE')])
      }
      results.push(result)
    }
  }
  return results
}
