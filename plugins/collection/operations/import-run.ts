/** Writes the rows of an import, in the transaction of its caller, and reports what is wrong with them. */
import { setImmediate as nextIteration } from 'node:timers/promises'
import { Type } from '@sinclair/typebox'
import type { Connection, Transaction } from '../../../drizzle/client/types.ts'
import { disconnected, getLifetime } from '../../admission/request-lifetime.ts'
import type { RowType } from '../../http/content-type.ts'
import { compileValue } from '../../validation/body.ts'
import { CsvParser } from '../request/rows/csv.ts'
import { NdjsonParser } from '../request/rows/ndjson.ts'
import { readPieces } from '../request/rows/read-pieces.ts'
import type { ReceivedBody } from '../request/rows/received-body.ts'
import { createRowBodies } from '../request/rows/row-bodies.ts'
import type { RowParser, SentRow } from '../request/rows/sent-row.ts'
import type { Resource } from '../resource.ts'
import { createIsSameIn } from '../sql/same-values.ts'
import { UsedRights } from '../used-rights.ts'
import type { OperationContext } from './context.ts'
import { type ImportTools, type PlannedRow, type PlannerRequest, RowPlanner } from './row-planner.ts'
import { isRowError, RowViolations } from './row-violations.ts'
import type { RowWrite, WriteInput, WriteOperation } from './write-operation.ts'

export interface ImportCounts {
  created: number
  updated: number
  unchanged: number
}

interface ImportRequest extends PlannerRequest {
  body: ReceivedBody
  type: RowType
}

/** Rows that are prepared in one turn of the event loop, which takes about 0.3 ms: a request waits for several turns. */
const ROWS_PER_TURN = 25

/** What the pieces of an import have in common. */
interface Outcome {
  counts: ImportCounts
  violations: RowViolations
}

export interface Importer {
  createRun(request: ImportRequest): ImportRun
}

export function createImporter(context: OperationContext, operations: ImportTools['operations']): Importer {
  const { options, resource } = context
  const { create } = resource.published.schemas
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
    createRun(request) {
      tools ??= createTools()
      return new ImportRun(tools, request)
    },
  }
}

function createParser({ published }: Resource, type: RowType, maxRowBytes: number): RowParser {
  if (type === 'application/x-ndjson') return new NdjsonParser(maxRowBytes)
  const { create, change, read } = published.schemas
  const written = new Map(Object.entries({ ...change.properties, ...create.properties }))
  const readOnly = Object.keys(read.properties).filter((name) => !written.has(name))
  return new CsvParser({ written, readOnly: new Set(readOnly) }, maxRowBytes)
}

export class ImportRun {
  readonly #tools: ImportTools
  readonly #request: ImportRequest
  #rowCount = 0

  constructor(tools: ImportTools, request: ImportRequest) {
    this.#tools = tools
    this.#request = request
  }

  /** The rows that were read. */
  get rowCount(): number {
    return this.#rowCount
  }

  /**
   * Checks all rows without a lock.
   * @throws ApiError 422 with what is wrong with the rows themselves, in their order; 400 and 413 for the whole
   */
  async check(connection: Connection): Promise<void> {
    const violations = new RowViolations(this.#tools.bodies)
    const planner = new RowPlanner(this.#tools, this.#request, violations)
    for await (const piece of this.#readPieces()) {
      await planner.check(connection, piece)
      if (violations.isFull) break
    }
    violations.throwIfAny()
  }

  /**
   * Writes all rows.
   * @throws ApiError 422 with the violations of the first piece that has any; 403 if other rows have withdrawn a permission
   */
  async write(tx: Transaction): Promise<ImportCounts> {
    const { address } = this.#request
    const violations = new RowViolations(this.#tools.bodies)
    const usedRights = new UsedRights(this.#tools.context.resource, address.actor)
    const planner = new RowPlanner(this.#tools, { ...this.#request, usedRights }, violations)
    const counts: ImportCounts = { created: 0, updated: 0, unchanged: 0 }
    for await (const piece of this.#readPieces()) {
      await this.#writePiece(tx, await planner.plan(tx, piece), { counts, violations })
      violations.throwIfAny()
    }
    await usedRights.check(tx)
    return counts
  }

  async *#readPieces(): AsyncGenerator<SentRow[], void, undefined> {
    const { app, resource } = this.#tools.context
    const { body, reply, type } = this.#request
    const { maxRowBytes, maxRows } = app.imports
    const lifetime = getLifetime(reply.raw)
    for await (const piece of readPieces(body.read(), createParser(resource, type, maxRowBytes), maxRows)) {
      if (!lifetime.isAwaited) throw disconnected
      this.#rowCount = Math.max(this.#rowCount, piece.at(-1)?.number ?? 0)
      yield piece
    }
  }

  /** Writes rows together; if that fails, one by one, to find those that are at fault. */
  async #writePiece(tx: Transaction, planned: readonly PlannedRow[], outcome: Outcome): Promise<void> {
    if (await this.#tryToWrite(tx, planned, outcome)) return
    for (const each of planned) {
      if (outcome.violations.isFull) return
      await this.#tryToWrite(tx, [each], outcome)
    }
  }

  /** @returns false if several rows could not be written together */
  async #tryToWrite(
    tx: Transaction,
    planned: readonly PlannedRow[],
    { counts, violations }: Outcome,
  ): Promise<boolean> {
    const [first, another] = planned
    if (!first) return true
    try {
      const written = await tx.savepoint(() => this.#writeAll(tx, planned))
      counts.created += written.created
      counts.updated += written.updated
      counts.unchanged += written.unchanged
    } catch (error) {
      const sent = this.#tools.context.toSentError(error, first.input.prefix, this.#request.address.actor)
      if (!isRowError(sent)) throw error
      if (another) return false
      violations.addError(first.row, sent)
    }
    return true
  }

  /** Writes rows in their order: those that follow each other and may be written together, by one call. */
  async #writeAll(tx: Transaction, planned: readonly PlannedRow[]): Promise<ImportCounts> {
    const counts = { created: 0, updated: 0, unchanged: 0 }
    let group: { operation: WriteOperation; writes: RowWrite<WriteInput, unknown>[] } | undefined
    const flush = async () => {
      for (const written of (await group?.operation.write(tx, group.writes)) ?? []) {
        if (written.status === 201) counts.created += 1
        else if ('isUnchanged' in written && written.isUnchanged) counts.unchanged += 1
        else counts.updated += 1
      }
      group = undefined
    }
    for (const [i, { operation, input, current, createRefusal }] of planned.entries()) {
      if (i % ROWS_PER_TURN === 0) await nextIteration()
      if (createRefusal) throw createRefusal()
      const isJoined = operation.isJoined?.(input) ?? false
      if (operation !== group?.operation || !isJoined) await flush()
      const found = current ?? (await operation.find(tx, input, true))
      const prepared = await operation.prepare?.(tx, input, found)
      group ??= { operation, writes: [] }
      group.writes.push({ input, found, prepared })
      if (!isJoined) await flush()
    }
    await flush()
    return counts
  }
}
