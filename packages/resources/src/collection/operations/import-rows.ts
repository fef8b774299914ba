/** The rows of an import: all are checked without a lock, then written in one transaction, a piece after the other. */
import { setImmediate as nextIteration } from 'node:timers/promises'
import type { Connection } from '@resource-api/database'
import { isObject, mapInTurns, SHORT_TURN_MS, type Transaction } from '@resource-api/database/internal'
import { apiError } from '@resource-api/http'
import { createViolation, type Fields, getRule, toWords } from '@resource-api/http/internal'
import type { FilterValue } from '../query.ts'
import type { SentRow } from '../request/rows/read-pieces.ts'
import type { RowBodies } from '../request/rows/row-bodies.ts'
import { createCheck, type WriteCall } from '../request/write-call.ts'
import type { Row } from '../store.ts'
import { UsedRights } from '../used-rights.ts'
import type { OperationContext } from './context.ts'
import { isRowError, RowViolations } from './row-violations.ts'
import type { RowWrite, WriteInput, WriteOperation } from './write-operation.ts'

/** What the imports of one collection in one version share. */
export interface ImportTools {
  context: OperationContext
  operations: Readonly<Record<'create' | 'update', WriteOperation>>
  bodies: RowBodies
}

interface ImportCall extends Pick<WriteCall, 'request' | 'reply' | 'address'> {
  /** The field that identifies rows. */
  conflict: string | undefined
}

type Pieces = AsyncIterable<readonly SentRow[]>

interface ReadRow {
  row: SentRow
  body: Fields
  /** The path and the value of the field that identifies the row. */
  field?: string
  value?: FilterValue
}

/** A stored row: locked, or, without the right to change it, only its ids. */
interface Existing {
  current: Row
  isRefused: boolean
}

interface PlannedRow {
  row: SentRow
  operation: WriteOperation
  input: WriteInput
  /** Undefined for a new row. */
  current: Row | undefined
}

type Outcome = 'created' | 'updated' | 'unchanged'

/** Rows that are prepared in one turn of the event loop. */
const ROWS_PER_TURN = 25

/** Maps rows in turns of the event loop, and leaves out those without a result. */
const mapRows = async <T, R>(rows: readonly T[], map: (row: T) => R | undefined): Promise<R[]> =>
  (await mapInTurns(rows, map, SHORT_TURN_MS)).filter((result) => result !== undefined)

export class ImportRows {
  readonly #tools: ImportTools
  readonly #call: ImportCall
  readonly #usedRights: UsedRights
  readonly #violations: RowViolations
  /** The values of the rows before. */
  readonly #seen = new Set<unknown>()
  /** Of the rows that are written. */
  readonly counts = { created: 0, updated: 0, unchanged: 0 }

  constructor(tools: ImportTools, call: ImportCall) {
    this.#tools = tools
    this.#call = call
    this.#violations = new RowViolations(tools.bodies)
    this.#usedRights = new UsedRights(tools.context.resource, call.address.actor)
  }

  /** @throws ApiError 422 with what is wrong with the rows themselves, whatever other rows there are */
  async check(connection: Connection, pieces: Pieces): Promise<void> {
    for await (const piece of pieces) {
      const rows = await mapRows(piece, (row) => this.#read(row))
      const existing = await this.#find(connection, rows, false)
      await mapRows(rows, (row) => this.#plan(row, existing))
      if (this.#violations.isFull) break
    }
    this.#violations.throwIfAny()
  }

  /**
   * @throws ApiError 422 with the violations of the first piece that has any; 403 if other rows have withdrawn a permission
   */
  async write(tx: Transaction, pieces: Pieces): Promise<void> {
    for await (const piece of pieces) {
      const rows = (await mapRows(piece, (row) => this.#read(row))).filter((row) => this.#isFirst(row))
      const existing = await this.#find(tx, rows, true)
      await this.#tryToWrite(tx, await mapRows(rows, (row) => this.#plan(row, existing)))
      this.#violations.throwIfAny()
    }
    await this.#usedRights.check(tx)
  }

  /** Returns the body of a row; undefined if its text, or the value that identifies it, is wrong. */
  #read(row: SentRow): ReadRow | undefined {
    const { bodies } = this.#tools
    const { conflict } = this.#call
    if (!row.value) return this.#violations.add(row, row.violations)
    const body = bodies.toBody(row.value)
    if (!conflict) return { row, body }
    const { value: mapped, error } = bodies.toCollection(body)
    if (error) return this.#violations.addError(row, error)
    const { members, prefix } = bodies.open(isObject(mapped) ? mapped : body)
    const field = `${prefix}${this.#nameConflict(conflict)}`
    const { value, violations } = bodies.readConflict(conflict, members)
    const named = violations.map((each) => ({ ...each, field }))
    return value === undefined ? this.#violations.add(row, named) : { row, body, field, value }
  }

  /** Returns the field that identifies rows as the version names it. */
  #nameConflict(conflict = ''): string {
    const { names } = this.#tools.context
    return names.toVersion(conflict) ?? conflict
  }

  /** Returns whether no earlier row has the value that identifies a row. */
  #isFirst({ row, field = '', value }: ReadRow): boolean {
    const isFirst = value === undefined || !this.#seen.has(value)
    this.#seen.add(value)
    const violation = createViolation(field, 'is the same as in an earlier row', 'ALREADY_EXISTS')
    if (!isFirst) this.#violations.add(row, [violation])
    return isFirst
  }

  /** Returns the stored rows by the values that identify them. */
  async #find(connection: Connection, rows: readonly ReadRow[], isLocking: boolean) {
    const { access, parent, select, stores } = this.#tools.context.resource
    const { address, conflict } = this.#call
    const found = new Map<unknown, Existing>()
    if (!conflict) return found
    const values = rows.flatMap(({ value }) => value ?? [])
    const scope = { ...address, rule: getRule(access, 'update', address.actor) }
    if (isLocking) {
      await stores.lockTable(connection)
      for (const row of await select.lockByValues(connection, conflict, values, scope)) {
        this.#usedRights.addRow(scope.rule, row)
        found.set(row[conflict], { current: row, isRefused: false })
      }
      if (scope.rule === true && !parent) return found
    }
    const others = values.filter((value) => !found.has(value))
    for (const row of await select.byValues(connection, conflict, others)) {
      found.set(row[conflict], { current: row, isRefused: isLocking })
    }
    return found
  }

  /** Returns the write that a row means; undefined if it is wrong. */
  #plan(
    { row, body: sent, value }: ReadRow,
    existing: ReadonlyMap<unknown, Existing>,
  ): PlannedRow | undefined {
    const { bodies, operations } = this.#tools
    const { address, conflict, request, reply } = this.#call
    const { current, isRefused = false } = existing.get(value) ?? {}
    const mode = current ? 'update' : 'create'
    const validated = bodies.validate[mode](sent)
    const body = isObject(validated.value) ? validated.value : sent
    // It only identifies the row: the caller need not be able to change it.
    if (current && conflict) delete bodies.open(body).members[conflict]
    try {
      const operation = operations[mode]
      // Not as a spread of the call: V8 extends such an object slowly.
      const input = operation.read({
        request,
        reply,
        address: current ? { ...address, id: current.id } : address,
        open: (id) => bodies.open(body, id),
        // Of a row that is not the caller's, an error would show its values.
        mayRepeat: current !== undefined && !isRefused,
        preconditions: {},
        check: createCheck(validated),
        usedRights: this.#usedRights,
      })
      if (current && isRefused) throw this.#createRefusal(current)
      return { row, operation, input, current }
    } catch (error) {
      if (!isRowError(error)) throw error
      return this.#violations.addError(row, error)
    }
  }

  /** Returns 403 or 404 for a row that the caller may not change. Without its id, which says when it was created. */
  #createRefusal(current: Row): Error {
    const { app, resource } = this.#tools.context
    const { address, conflict } = this.#call
    const message = `There is no ${toWords(resource.singular)} with this ${this.#nameConflict(conflict)}`
    const createNotFound = () => apiError('RESOURCE_NOT_FOUND', { message })
    const isOfParent = !resource.parent || current[resource.parent.member] === address.parent
    return isOfParent ? app.refusal(createNotFound) : createNotFound()
  }

  /** Writes rows together; if that fails, one half after the other, down to the rows that are at fault. */
  async #tryToWrite(tx: Transaction, writes: readonly PlannedRow[]): Promise<void> {
    const [first, another] = writes
    if (!first || this.#violations.isFull) return
    try {
      const outcomes = await tx.savepoint(() => this.#writePiece(tx, writes))
      for (const outcome of outcomes) this.counts[outcome] += 1
    } catch (error) {
      const { actor } = this.#call.address
      const sent = this.#tools.context.toSentError(error, first.input, actor)
      if (!isRowError(sent)) throw error
      if (!another) {
        this.#violations.addError(first.row, sent)
        return
      }
      const half = Math.ceil(writes.length / 2)
      await this.#tryToWrite(tx, writes.slice(0, half))
      await this.#tryToWrite(tx, writes.slice(half))
    }
  }

  /** Writes rows in their order: those that follow each other and may be written together, by one call. */
  async #writePiece(tx: Transaction, planned: readonly PlannedRow[]): Promise<Outcome[]> {
    const outcomes: Outcome[] = []
    let operation: WriteOperation | undefined
    let writes: RowWrite<WriteInput, unknown>[] = []
    const flush = async () => {
      for (const written of (await operation?.write(tx, writes)) ?? []) {
        const isUnchanged = 'isUnchanged' in written && written.isUnchanged
        outcomes.push(isUnchanged ? 'unchanged' : written.status === 201 ? 'created' : 'updated')
      }
      writes = []
    }
    for (const [i, { current, input, operation: next }] of planned.entries()) {
      if (i % ROWS_PER_TURN === 0) await nextIteration()
      const isJoined = next.isJoined?.(input) ?? false
      if (next !== operation || !isJoined) await flush()
      operation = next
      const found = current ?? (await next.find(tx, input, true))
      writes.push({ input, found, prepared: await next.prepare?.(tx, input, found) })
      if (!isJoined) await flush()
    }
    await flush()
    return outcomes
  }
}
