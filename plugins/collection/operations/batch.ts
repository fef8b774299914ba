/** Runs the planned operations of a batch: the writes of single requests, all in one transaction. */
import type { Connection, Database, Transaction } from '../../../drizzle/client/types.ts'
import type { Actor } from '../../access/actor.ts'
import { disconnected, getLifetime } from '../../admission/request-lifetime.ts'
import { ApiError, invalidBody } from '../../errors/index.ts'
import { getOrigin } from '../../outbox/origin.ts'
import { createViolation } from '../../validation/text.ts'
import { MAX_PAGE_BYTES } from '../reply-size.ts'
import { MissingRowError } from '../request/resource-address.ts'
import type { Written, WrittenTexts } from '../response/response-builder.ts'
import type { BatchRequest, PlannedOperation } from './batch-plan.ts'
import type { PreparedColumns } from './context.ts'
import { toOwnViolations } from './own-violations.ts'
import { lockBatch } from './row-locks.ts'
import type { Insertion } from './write-plan.ts'

/** Returns the error of an operation as that of the batch. */
function toBatchError(error: unknown, { index, route, plan }: PlannedOperation, actor: Actor): unknown {
  const sent = route.context.toSentError(error, `operations.${index}.body.${plan.prefix}`, actor)
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

interface Prepared {
  columns?: PreparedColumns
  error?: ApiError
}

/** Runs the operations of a batch in a transaction that its caller opens. */
export class BatchRun {
  readonly #batch: BatchRequest
  readonly #planned: readonly PlannedOperation[]
  readonly #isMinimal: boolean
  readonly #prepared = new Map<PlannedOperation, Prepared>()
  /** @param isMinimal whether the results have no resources */
  constructor(batch: BatchRequest, planned: readonly PlannedOperation[], isMinimal: boolean) {
    this.#batch = batch
    this.#planned = planned
    this.#isMinimal = isMinimal
  }

  /** Does the slow work that needs no earlier operation of the batch, once, before the transaction begins. */
  async prepare(database: Database): Promise<void> {
    const targets = new Set<string>()
    for (const operation of this.#planned) {
      const { plan, target } = operation
      const isFirst = !targets.has(target)
      targets.add(target)
      if (!plan.slow || !isFirst) continue
      let found: unknown
      try {
        found = await plan.find(database, false)
        await plan.slow.check(found, database)
      } catch (error) {
        // An operation before it may change that.
        if (error instanceof ApiError) continue
        throw error
      }
      const prepared = await this.#prepareOne(operation, found, database)
      // An operation before it may fail first; those after it do not run.
      if (prepared.error) return
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
      const { method, plan } = operation
      if (method === 'DELETE') continue
      try {
        await plan.find(connection, false)
      } catch (error) {
        if (mayRemove && error instanceof MissingRowError) continue
        throw toBatchError(error, operation, this.#batch.actor)
      }
    }
  }

  async #prepareOne(operation: PlannedOperation, found: unknown, connection: Connection): Promise<Prepared> {
    const prepared: Prepared = {}
    try {
      prepared.columns = await operation.plan.slow?.run(found, connection)
    } catch (error) {
      if (!(error instanceof ApiError)) throw error
      prepared.error = error
    }
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
      for (const written of await this.#writeNext(tx, results.length)) {
        const operation = this.#planned[results.length]
        if (!operation) break
        const { builder } = operation.route.context
        const result = builder.buildResult(request, reply, actor, written, this.#isMinimal)
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
    const created = new Set(this.#planned.flatMap(({ plan, target }) => (plan.lock ? [] : target)))
    const writes = this.#planned.map(({ plan, route, target }) => ({
      resource: route.context.resource,
      lock: created.has(target) ? undefined : plan.lock,
      fields: plan.fields,
    }))
    if (writes.length > 1) await lockBatch(tx, writes, this.#batch.actor)
  }

  /** Writes the operation at an index; with those behind it, if all are inserts into the same collection. */
  async #writeNext(tx: Transaction, index: number): Promise<Written[]> {
    const group = this.#takeGroup(index)
    if (group.length > 1) {
      try {
        return await tx.savepoint(() => this.#insertAll(tx, group))
      } catch (error) {
        // Which row is at fault is not known: they are written one by one.
        if (!(error instanceof ApiError)) throw error
      }
    }
    const written: Written[] = []
    for (const operation of group) written.push(await this.#writeOne(tx, operation))
    return written
  }

  /** Returns the operation at an index; with those behind it, if all are inserts into the same collection. */
  #takeGroup(start: number): PlannedOperation[] {
    const first = this.#planned[start]
    let end = start
    while (first && this.#planned[end]?.plan.insertion && this.#planned[end]?.route === first.route) end += 1
    return this.#planned.slice(start, Math.max(end, start + 1))
  }

  /** Inserts the rows of several creations by one statement. */
  async #insertAll(tx: Connection, group: readonly PlannedOperation[]): Promise<Written[]> {
    const { actor, request } = this.#batch
    const insertions: Insertion[] = []
    const rows: Awaited<ReturnType<Insertion['buildValues']>>[] = []
    for (const operation of group) {
      const { insertion } = operation.plan
      if (!insertion) continue
      await operation.plan.find(tx, true)
      rows.push(await insertion.buildValues(tx, await this.#getPrepared(tx, operation)))
      insertions.push(insertion)
    }
    const stores = group[0]?.route.context.resource.stores
    const inserted = (await stores?.insertRows(tx, getOrigin(actor, request.id), rows)) ?? []
    return insertions.map((insertion, i) => {
      const row = inserted[i]
      if (!row) throw new Error('An insert returned too few rows')
      return insertion.toWritten(row)
    })
  }

  async #getPrepared(tx: Connection, operation: PlannedOperation, found?: unknown): Promise<PreparedColumns> {
    if (!operation.plan.slow) return undefined
    const prepared = this.#prepared.get(operation) ?? (await this.#prepareOne(operation, found, tx))
    if (prepared.error) throw prepared.error
    return prepared.columns
  }

  async #writeOne(tx: Connection, operation: PlannedOperation): Promise<Written> {
    const { plan } = operation
    try {
      const written = plan.lock && (await plan.statement?.run(tx))
      if (written) return written
      const found = await plan.find(tx, true)
      return await plan.write(tx, found, await this.#getPrepared(tx, operation, found))
    } catch (error) {
      throw toBatchError(error, operation, this.#batch.actor)
    }
  }
}
