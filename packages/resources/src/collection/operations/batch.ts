/** Runs the planned operations of a batch: the writes of single requests, all in one transaction. */
import type { Connection, Database } from '@resource-api/database'
import type { Transaction } from '@resource-api/database/internal'
import { invalidBody } from '@resource-api/http'
import { type Actor, ApiError, createViolation, disconnected, getLifetime } from '@resource-api/http/internal'
import { MAX_PAGE_BYTES } from '../reply-size.ts'
import { MissingRowError } from '../request/resource-address.ts'
import type { Written, WrittenTexts } from '../response/response-builder.ts'
import type { BatchRequest, PlannedOperation } from './batch-plan.ts'
import { toOwnViolations } from './own-violations.ts'
import { lockBatch } from './row-locks.ts'
import type { PreparedColumns, RowWrite, WriteInput, WriteOperation } from './write-operation.ts'

/** Returns the error of an operation as that of the batch. */
function toBatchError(error: unknown, { index, input, route }: PlannedOperation, actor: Actor): unknown {
  const sent = route.context.toSentError(
    error,
    { ...input, prefix: `operations.${index}.body.${input.prefix}` },
    actor,
  )
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

/** Runs the operations of a batch in a transaction that its caller opens. */
export class BatchRun {
  readonly #batch: BatchRequest
  readonly #planned: readonly PlannedOperation[]
  readonly #isMinimal: boolean
  /** Whether its operations are of several collections. */
  readonly #isMixed: boolean
  /** The results of slow work, or its errors. */
  readonly #prepared = new Map<PlannedOperation, PreparedColumns | ApiError>()
  /** @param isMinimal whether the results have no resources */
  constructor(batch: BatchRequest, planned: readonly PlannedOperation[], isMinimal: boolean) {
    this.#batch = batch
    this.#planned = planned
    this.#isMinimal = isMinimal
    this.#isMixed = new Set(planned.map(({ route }) => route.context.resource)).size > 1
  }

  /** Does the slow work that needs no earlier operation of the batch, once, before the transaction begins. */
  async prepare(database: Database): Promise<void> {
    const targets = new Set<string>()
    for (const operation of this.#planned) {
      const { target } = operation
      const isFirst = !targets.has(target)
      targets.add(target)
      if (!operation.route.operation.prepare || !isFirst) continue
      let found: unknown
      try {
        found = await this.#find(database, operation, false)
      } catch (error) {
        // An operation before it may change that.
        if (error instanceof ApiError) continue
        throw error
      }
      // An operation before it may fail first; those after it do not run.
      if ((await this.#prepareOne(database, operation, found)) instanceof ApiError) return
    }
  }

  /**
   * Checks access to what a stored response of the batch shows, as a single request is checked before its stored response.
   * Its operations have the ids of that response. A removal shows nothing, and may have removed rows of the others.
   * @throws ApiError 404 if a row was removed since, 403 if the caller may no longer write it, or create one like it
   */
  async checkStored(connection: Connection): Promise<void> {
    const mayRemove = this.#planned.some(({ route }) => route.operation.mayRemove)
    for (const operation of this.#planned) {
      if (operation.method === 'DELETE') continue
      try {
        await this.#find(connection, operation, false)
      } catch (error) {
        if (mayRemove && error instanceof MissingRowError) continue
        throw toBatchError(error, operation, this.#batch.actor)
      }
    }
  }

  async #find(connection: Connection, { error, input, route }: PlannedOperation, isLocking: boolean) {
    if (error) throw error
    return route.operation.find(connection, input, isLocking)
  }

  async #prepareOne(connection: Connection, operation: PlannedOperation, found: unknown) {
    const { input, route } = operation
    const prepared = await route.operation.prepare?.(connection, input, found).catch((error) => {
      if (error instanceof ApiError) return error
      throw error
    })
    this.#prepared.set(operation, prepared)
    return prepared
  }

  /**
   * @returns the results, in the order of the operations
   * @throws ApiError of the first operation that fails; 422 if the results are larger than a page of a list may be
   */
  async write(tx: Transaction): Promise<WrittenTexts[]> {
    const { actor, reply, request } = this.#batch
    const results: WrittenTexts[] = []
    let bytes = 0
    await this.#lockRows(tx)
    while (results.length < this.#planned.length) {
      if (!getLifetime(reply.raw).isAwaited) throw disconnected
      const group = this.#takeGroup(results.length)
      for (const [i, written] of (await this.#writeGroup(tx, group)).entries()) {
        const builder = group[i]?.route.context.builder
        if (!builder) throw new Error('A batch has more results than operations')
        const result = builder.buildResult(request, actor, written, this.#isMinimal)
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

  /** Locks the rows that exist, if they are several: another batch may have the same ones in another order. */
  async #lockRows(tx: Transaction): Promise<void> {
    const isCreated = ({ route }: PlannedOperation) => !route.operation.getLock
    const created = new Set(this.#planned.filter(isCreated).map(({ target }) => target))
    const writes = this.#planned.map(({ error, input, route, target }) => ({
      resource: route.context.resource,
      lock: error || created.has(target) ? undefined : route.operation.getLock?.(input),
      fields: input.fields,
    }))
    if (writes.length > 1) await lockBatch(tx, writes, this.#batch.actor)
  }

  /** Returns the operation at an index; with those behind it, if one statement creates all of their rows. */
  #takeGroup(start: number): PlannedOperation[] {
    const first = this.#planned[start]
    const isJoined = ({ error, input, route }: PlannedOperation) =>
      !error && route.isCreation && route === first?.route && route.operation.isJoined?.(input)
    let end = start
    for (let next = first; next && isJoined(next); next = this.#planned[end]) end += 1
    return this.#planned.slice(start, Math.max(end, start + 1))
  }

  async #writeGroup(tx: Transaction, group: readonly PlannedOperation[]): Promise<Written[]> {
    const [first, another] = group
    if (!first) return []
    const { operation } = first.route
    if (!another) {
      return this.#writeAll(tx, operation, group).catch((error) => {
        throw toBatchError(error, first, this.#batch.actor)
      })
    }
    try {
      return await tx.savepoint(() => this.#writeAll(tx, operation, group))
    } catch (error) {
      if (!(error instanceof ApiError)) throw error
    }
    // Which row is at fault is not known: one half is written after the other.
    const half = Math.ceil(group.length / 2)
    const written = await this.#writeGroup(tx, group.slice(0, half))
    return [...written, ...(await this.#writeGroup(tx, group.slice(half)))]
  }

  async #writeAll(tx: Transaction, operation: WriteOperation, group: readonly PlannedOperation[]) {
    const writes: RowWrite<WriteInput, unknown>[] = []
    for (const each of group) {
      const found = await this.#find(tx, each, true)
      const isPrepared = this.#prepared.has(each)
      const prepared = isPrepared ? this.#prepared.get(each) : await this.#prepareOne(tx, each, found)
      if (prepared instanceof ApiError) throw prepared
      writes.push({ input: each.input, found, prepared })
    }
    const written = await operation.write(tx, writes)
    // Operations of other collections see what they do.
    if (this.#isMixed) await tx.runHooks()
    return written
  }
}
