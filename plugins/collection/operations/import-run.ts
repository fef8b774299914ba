/** Writes the rows of an import, in the transaction of its caller, and reports what is wrong with them. */
import { setImmediate as nextIteration } from 'node:timers/promises'
import { Type } from '@sinclair/typebox'
import type { Values } from '../../../drizzle/client/prepare.ts'
import type { Transaction } from '../../../drizzle/client/types.ts'
import { disconnected, getLifetime } from '../../admission/request-lifetime.ts'
import type { RowType } from '../../http/content-type.ts'
import { getOrigin } from '../../outbox/origin.ts'
import { compileValue } from '../../validation/body.ts'
import { CsvParser } from '../request/rows/csv.ts'
import { NdjsonParser } from '../request/rows/ndjson.ts'
import { createRowBodies } from '../request/rows/row-bodies.ts'
import type { RowReader } from '../request/rows/row-reader.ts'
import type { RowParser, SentRow } from '../request/rows/sent-row.ts'
import type { RowUpdate } from '../resource.ts'
import { createIsSameIn } from '../sql/same-values.ts'
import type { OperationContext } from './context.ts'
import { type ImportTools, type PlannedRow, type PlannerRequest, RowPlanner } from './row-planner.ts'
import { isRowError, RowViolations } from './row-violations.ts'

export interface ImportCounts {
  created: number
  updated: number
  unchanged: number
}

interface ImportRequest extends PlannerRequest {
  reader: RowReader
}

/** Rows that are prepared in one turn of the event loop, which takes about 0.3 ms: a request waits for several turns. */
const ROWS_PER_TURN = 25

export interface Importer {
  createParser(type: RowType, maxRowBytes: number): RowParser
  createRun(request: ImportRequest): ImportRun
}

export function createImporter(context: OperationContext, operations: ImportTools['operations']): Importer {
  const { options, resource } = context
  const { create, change, read } = resource.published.schemas
  const readers = new Map<string, ReturnType<typeof compileValue>>()
  // Compiled at the first import: few collections have one.
  let tools: ImportTools | undefined
  const createTools = (): ImportTools => ({
    context,
    operations,
    bodies: createRowBodies(resource, options.representation),
    isSameIn: createIsSameIn(resource.columns),
    readMember(name) {
      const known = readers.get(name)
      if (known) return known
      const properties = { [name]: create.properties[name] }
      const made = compileValue(Type.Unsafe({ type: 'object', required: [name], properties }))
      readers.set(name, made)
      return made
    },
  })
  return {
    createParser(type, maxRowBytes) {
      if (type === 'application/x-ndjson') return new NdjsonParser(maxRowBytes)
      const written = new Map(Object.entries({ ...change.properties, ...create.properties }))
      const readOnly = Object.keys(read.properties).filter((name) => !written.has(name))
      return new CsvParser({ written, readOnly: new Set(readOnly) }, maxRowBytes)
    },
    createRun(request) {
      tools ??= createTools()
      return new ImportRun(tools, request)
    },
  }
}

export class ImportRun {
  readonly counts: ImportCounts = { created: 0, updated: 0, unchanged: 0 }
  readonly #tools: ImportTools
  readonly #request: ImportRequest
  readonly #violations: RowViolations
  readonly #planner: RowPlanner
  /** The rows that were read before the transaction began. */
  #groups: SentRow[][] = []

  constructor(tools: ImportTools, request: ImportRequest) {
    this.#tools = tools
    this.#request = request
    this.#violations = new RowViolations(tools.bodies)
    this.#planner = new RowPlanner(tools, request, this.#violations)
  }

  /**
   * Reads rows before the transaction begins.
   * @param minBytes to read if the body has as many; at least a group is read
   */
  async readAhead(minBytes: number): Promise<void> {
    const { reader } = this.#request
    for (;;) {
      const group = await reader.readGroup()
      if (group.length === 0) return
      this.#groups.push(group)
      if (reader.bytes >= minBytes) return
    }
  }

  /**
   * Writes all rows.
   * @throws ApiError 422 with the violations, in the order of the rows; those of `readGroup`
   */
  async write(tx: Transaction): Promise<void> {
    const { reader, reply } = this.#request
    const lifetime = getLifetime(reply.raw)
    while (!this.#violations.isFull) {
      const group = this.#groups.shift() ?? (await reader.readGroup())
      if (group.length === 0) break
      await this.#writeGroup(tx, await this.#planner.plan(tx, group))
      reader.checkTime()
      if (!lifetime.isAwaited) throw disconnected
    }
    this.#violations.throwIfAny()
  }

  /** Writes rows together; if that fails, one by one, to find those that are at fault. */
  async #writeGroup(tx: Transaction, planned: readonly PlannedRow[]): Promise<void> {
    if (await this.#tryToWrite(tx, planned)) return
    for (const each of planned) {
      if (this.#violations.isFull) return
      await this.#tryToWrite(tx, [each])
    }
  }

  /** @returns false if several rows could not be written together */
  async #tryToWrite(tx: Transaction, planned: readonly PlannedRow[]): Promise<boolean> {
    const [first, another] = planned
    if (!first) return true
    try {
      const counts = await tx.savepoint(() => this.#writeAll(tx, planned))
      this.counts.created += counts.created
      this.counts.updated += counts.updated
      this.counts.unchanged += counts.unchanged
    } catch (error) {
      const sent = this.#tools.context.toSentError(error, first.plan.prefix, this.#request.address.actor)
      if (!isRowError(sent)) throw error
      if (another) return false
      this.#violations.addError(first.row, sent)
    }
    return true
  }

  /** Writes rows in their order: those that follow each other and are only inserts, or only updates, together. */
  async #writeAll(tx: Transaction, planned: readonly PlannedRow[]): Promise<ImportCounts> {
    const { request, address } = this.#request
    const { stores, table } = this.#tools.context.resource
    const origin = getOrigin(address.actor, request.id)
    const counts = { created: 0, updated: 0, unchanged: 0 }
    let inserts: Values[] = []
    let updates: RowUpdate[] = []
    const flush = async () => {
      if (inserts.length > 0) await stores.insertAll(tx, origin, inserts, { id: table.id })
      const updated = updates.length > 0 ? await stores.updateAll(tx, origin, updates) : 0
      counts.created += inserts.length
      counts.updated += updated
      counts.unchanged += updates.length - updated
      inserts = []
      updates = []
    }
    for (const [i, { plan, current, refusal }] of planned.entries()) {
      if (i % ROWS_PER_TURN === 0) await nextIteration()
      if (refusal) throw refusal
      if (!current) await plan.find(tx, true)
      const prepared = plan.needsPreparation ? await plan.prepare(current, tx) : undefined
      if (plan.insertion) {
        if (updates.length > 0) await flush()
        inserts.push(await plan.insertion.buildValues(tx, prepared))
      } else if (plan.update && current) {
        if (inserts.length > 0) await flush()
        updates.push({ current, next: await plan.update.buildNext(tx, current, prepared) })
      } else {
        await flush()
        const written = await plan.write(tx, current, prepared)
        if (!current) counts.created += 1
        else if ('isUnchanged' in written && written.isUnchanged) counts.unchanged += 1
        else counts.updated += 1
      }
    }
    await flush()
    return counts
  }
}
