/** The rows of an import: all are checked without a lock, then written in one transaction, a piece after the other. */
import type { Connection } from '@resource-api/database'
import { isObject, mapInTurns, SHORT_TURN_MS, type Transaction } from '@resource-api/database/internal'
import { apiError, invalidBody, type Violation } from '@resource-api/http'
import {
  ApiError,
  createViolation,
  type Fields,
  getRule,
  logFailure,
  MAX_VIOLATIONS,
  toWords,
} from '@resource-api/http/internal'
import type { FilterValue } from '../query.ts'
import type { SentRow } from '../request/rows/read-pieces.ts'
import type { RowBodies } from '../request/rows/row-bodies.ts'
import { createCheck, type WriteCall } from '../request/write-call.ts'
import type { Row } from '../store.ts'
import { UsedRights } from '../used-rights.ts'
import type { OperationContext } from './context.ts'
import { type PlannedWrite, toOwnViolations, writeMany } from './write-many.ts'
import type { WriteOperation } from './write-operation.ts'

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

interface PlannedRow extends PlannedWrite {
  row: SentRow
}

/** The statuses of errors of a row; others are those of the request. */
const ROW_STATUSES: readonly number[] = [400, 403, 404, 409, 422]

const isRowError = (error: unknown): error is ApiError =>
  error instanceof ApiError && ROW_STATUSES.includes(error.status)

/** Maps rows in turns of the event loop, and leaves out those without a result. */
const mapRows = async <T, R>(rows: readonly T[], map: (row: T) => R | undefined): Promise<R[]> =>
  (await mapInTurns(rows, map, SHORT_TURN_MS)).filter((result) => result !== undefined)

export function createImportRows({ bodies, context, operations }: ImportTools, call: ImportCall) {
  const { app, names, resource } = context
  const { access, parent, select, stores } = resource
  const { address, conflict, reply, request } = call
  const usedRights = new UsedRights(resource, address.actor)
  /** The values of the rows before. */
  const seen = new Set<unknown>()
  const counts = { created: 0, updated: 0, unchanged: 0 }
  const found: { number: number; violation: Violation }[] = []
  const isFull = () => found.length >= MAX_VIOLATIONS

  /** @returns undefined, the result of a row that is wrong */
  const refuse = ({ number, line, value }: SentRow, violations: readonly Violation[]): undefined => {
    for (const { field, message, code } of violations.slice(0, MAX_VIOLATIONS)) {
      const path = field === '' ? '' : `.${bodies.toRowField(field, value)}`
      const violation = createViolation(`rows.${number}${path}`, `${message} (line ${line})`, code)
      found.push({ number, violation })
    }
  }

  /** @throws ApiError 422 with the violations, in the order of the rows */
  const throwIfAny = () => {
    if (found.length === 0) return
    const sorted = found.toSorted((a, b) => a.number - b.number)
    throw invalidBody(sorted.slice(0, MAX_VIOLATIONS).map(({ violation }) => violation))
  }

  /** The field that identifies rows as the version names it. */
  const conflictName = names.toVersion(conflict ?? '') ?? conflict ?? ''

  /** Returns the body of a row; undefined if its text, or the value that identifies it, is wrong. */
  const read = (row: SentRow): ReadRow | undefined => {
    if (!row.value) return refuse(row, row.violations)
    const body = bodies.toBody(row.value)
    if (!conflict) return { row, body }
    const { value: mapped, error } = bodies.toCollection(body)
    if (error) return refuse(row, toOwnViolations(error, ''))
    const { members, prefix } = bodies.open(isObject(mapped) ? mapped : body)
    const field = `${prefix}${conflictName}`
    const { value, violations } = bodies.readConflict(conflict, members)
    const named = violations.map((each) => ({ ...each, field }))
    return value === undefined ? refuse(row, named) : { row, body, field, value }
  }

  /** Returns whether no earlier row has the value that identifies a row. */
  const isFirst = ({ row, field = '', value }: ReadRow): boolean => {
    if (value === undefined || !seen.has(value)) return Boolean(seen.add(value))
    refuse(row, [createViolation(field, 'is the same as in an earlier row', 'ALREADY_EXISTS')])
    return false
  }

  /** Returns the stored rows by the values that identify them. */
  const find = async (connection: Connection, rows: readonly ReadRow[], isLocking: boolean) => {
    const existing = new Map<unknown, Existing>()
    if (!conflict) return existing
    const values = rows.flatMap(({ value }) => value ?? [])
    const scope = { ...address, rule: getRule(access, 'update', address.actor) }
    if (isLocking) {
      await stores.lockTable(connection)
      for (const row of await select.lockByValues(connection, conflict, values, scope)) {
        usedRights.addRow(scope.rule, row)
        existing.set(row[conflict], { current: row, isRefused: false })
      }
      if (scope.rule === true && !parent) return existing
    }
    const others = values.filter((value) => !existing.has(value))
    for (const row of await select.byValues(connection, conflict, others)) {
      existing.set(row[conflict], { current: row, isRefused: isLocking })
    }
    return existing
  }

  /** Returns 403 or 404 for a row that the caller may not change. Without its id, which says when it was created. */
  const createRefusal = (current: Row): Error => {
    const message = `There is no ${toWords(resource.singular)} with this ${conflictName}`
    const createNotFound = () => apiError('RESOURCE_NOT_FOUND', { message })
    const isOfParent = !parent || current[parent.member] === address.parent
    return isOfParent ? app.refusal(createNotFound) : createNotFound()
  }

  /** Returns the write that a row means; undefined if it is wrong. */
  const plan = (
    { row, body: sent, value }: ReadRow,
    existing: ReadonlyMap<unknown, Existing>,
  ): PlannedRow | undefined => {
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
        usedRights,
      })
      if (current && isRefused) throw createRefusal(current)
      return { row, operation, input, isJoined: operation.isJoined?.(input) === true, found: current }
    } catch (error) {
      if (!isRowError(error)) throw error
      return refuse(row, toOwnViolations(error, ''))
    }
  }

  const onError = (error: unknown, { input, row }: PlannedRow) => {
    const sent = context.toSentError(error, input, address.actor)
    if (!isRowError(sent)) throw error
    logFailure(request, sent)
    refuse(row, toOwnViolations(sent, ''))
    if (isFull()) throwIfAny()
  }

  return {
    /** Of the rows that are written. */
    counts,

    /** @throws ApiError 422 with what is wrong with the rows themselves, whatever other rows there are */
    async check(connection: Connection, pieces: Pieces): Promise<void> {
      for await (const piece of pieces) {
        const rows = await mapRows(piece, read)
        const existing = await find(connection, rows, false)
        await mapRows(rows, (row) => plan(row, existing))
        if (isFull()) break
      }
      throwIfAny()
    },

    /**
     * @throws ApiError 422 with the violations of the first piece that has any; 403 if other rows have withdrawn a permission
     */
    async write(tx: Transaction, pieces: Pieces): Promise<void> {
      for await (const piece of pieces) {
        const rows = (await mapRows(piece, read)).filter(isFirst)
        const existing = await find(tx, rows, true)
        const planned = await mapRows(rows, (row) => plan(row, existing))
        for (const written of await writeMany(tx, planned, { onError, goesOn: true })) {
          const isUnchanged = 'isUnchanged' in written && written.isUnchanged
          counts[isUnchanged ? 'unchanged' : written.status === 201 ? 'created' : 'updated'] += 1
        }
        throwIfAny()
      }
      await usedRights.check(tx)
    },
  }
}
