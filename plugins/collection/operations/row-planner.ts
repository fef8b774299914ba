/** Plans the rows of an import: which one creates, which one changes a row that exists, and what it writes. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Connection, Transaction } from '../../../drizzle/client/types.ts'
import { isObject } from '../../../lib/is-object.ts'
import { mapInTurns, SHORT_TURN_MS } from '../../../lib/map-in-turns.ts'
import { toWords } from '../../../lib/to-words.ts'
import { getRule } from '../../access/rules.ts'
import { apiError } from '../../errors/index.ts'
import type { compileValue } from '../../validation/body.ts'
import type { Fields } from '../../validation/schema-functions.ts'
import { createViolation } from '../../validation/text.ts'
import type { SentBody } from '../../versioning/representation/types.ts'
import type { FilterValue } from '../query.ts'
import { toPublicName } from '../request/import-query.ts'
import type { ResourceAddress } from '../request/resource-address.ts'
import type { Mode, RowBodies } from '../request/rows/row-bodies.ts'
import type { SentRow } from '../request/rows/sent-row.ts'
import { createCheck, type WriteCall } from '../request/write-call.ts'
import { getHidden, getLocked } from '../restrictions.ts'
import type { createIsSameIn } from '../sql/same-values.ts'
import type { Row } from '../store.ts'
import type { UsedRights } from '../used-rights.ts'
import type { OperationContext } from './context.ts'
import { isRowError, type RowViolations } from './row-violations.ts'
import type { WriteInput, WriteOperation } from './write-operation.ts'

/** What the imports of one collection in one version share. */
export interface ImportTools {
  context: OperationContext
  operations: Readonly<Record<Mode, WriteOperation>>
  bodies: RowBodies
  isSameIn: ReturnType<typeof createIsSameIn>
  /** Validates and normalizes the member that identifies rows. */
  readMember(name: string): ReturnType<typeof compileValue>
}

export interface PlannerRequest {
  request: FastifyRequest
  reply: FastifyReply
  address: ResourceAddress
  /** The member by which rows are found that exist, with its name in the definition. */
  conflict: string | undefined
  usedRights?: UsedRights
}

/** A row that has the value of a sent one. */
interface Existing {
  row: Row
  /** Whether the caller may change it: then it is locked. `found`: that was not decided. */
  state: 'found' | 'locked' | 'refused'
}

/** A row with the write that it means. */
export interface PlannedRow {
  row: SentRow
  operation: WriteOperation
  input: WriteInput
  /** The row that the member identifies; undefined for a new one. */
  current: Row | undefined
  /** Creates the 403 or 404 if the caller may not change the current row. */
  createRefusal: (() => Error) | undefined
}

/** A row that could be read. */
type ReadRow = SentRow & { value: Fields }

const isFilterValue = (value: unknown): value is FilterValue =>
  ['string', 'number', 'boolean'].includes(typeof value)

const isDefined = <T>(value: T | undefined): value is T => value !== undefined

export class RowPlanner {
  readonly #tools: ImportTools
  readonly #request: PlannerRequest
  readonly #violations: RowViolations
  /** The public name of the member that identifies rows. */
  readonly #conflictField: string | undefined
  /** The fields that are immutable or that the caller may only read: their names by the public ones. */
  readonly #compared: ReadonlyMap<string, string>
  /** The values of the member in the rows before. */
  readonly #seen = new Set<unknown>()

  constructor(tools: ImportTools, request: PlannerRequest, violations: RowViolations) {
    const { resource } = tools.context
    const { actor } = request.address
    const hidden = getHidden(resource, actor)
    const readOnly = [...(getLocked(resource, actor) ?? [])].filter((name) => !hidden?.has(name))
    const compared = [...(resource.immutable ?? []), ...readOnly]
    this.#tools = tools
    this.#request = request
    this.#violations = violations
    this.#conflictField =
      request.conflict === undefined ? undefined : toPublicName(resource, request.conflict)
    this.#compared = new Map(compared.map((name) => [toPublicName(resource, name), name]))
  }

  /** Finds what is wrong with rows themselves, whatever other rows there are. */
  async check(connection: Connection, piece: readonly SentRow[]): Promise<void> {
    const readable = this.#listReadable(piece)
    const { conflict } = this.#request
    const values = await this.#readMembers(readable)
    const rows =
      conflict === undefined
        ? []
        : await this.#tools.context.resource.select.byValues(connection, conflict, values.filter(isDefined))
    await this.#planRows(readable, values, this.#toExisting(rows, 'found'))
  }

  /** Returns the writes of rows, and locks those that exist and that the caller may change. Rows that are wrong have none. */
  async plan(tx: Transaction, piece: readonly SentRow[]): Promise<PlannedRow[]> {
    const readable = this.#listReadable(piece)
    const values = (await this.#readMembers(readable)).map((value, i) =>
      this.#refuseRepeated(value, readable[i]),
    )
    return this.#planRows(readable, values, await this.#lockRows(tx, values.filter(isDefined)))
  }

  #listReadable(piece: readonly SentRow[]): ReadRow[] {
    return piece.filter((row): row is ReadRow => {
      this.#violations.add(row, row.violations)
      return row.value !== undefined && row.violations.length === 0
    })
  }

  async #planRows(
    rows: readonly ReadRow[],
    values: readonly (FilterValue | undefined)[],
    existing: ReadonlyMap<unknown, Existing>,
  ): Promise<PlannedRow[]> {
    const { conflict } = this.#request
    const planRow = (row: ReadRow, i: number) => {
      if (conflict === undefined) return this.#planRow(row)
      const value = values[i]
      return value === undefined ? undefined : this.#planRow(row, existing.get(value))
    }
    return (await mapInTurns(rows, planRow, SHORT_TURN_MS)).filter(isDefined)
  }

  /** Returns the rows that have one of the values, and locks those that the caller may change. */
  async #lockRows(tx: Connection, values: readonly FilterValue[]): Promise<Map<unknown, Existing>> {
    const { address, conflict, usedRights } = this.#request
    const { resource } = this.#tools.context
    const { actor, parent } = address
    if (conflict === undefined) return new Map()
    await resource.stores.lockTable(tx)
    const rule = getRule(resource.access, 'update', actor)
    const locked = await resource.select.lockByValues(tx, conflict, values, { rule, actor, parent })
    for (const row of locked) usedRights?.addRow(rule, row)
    const found = this.#toExisting(locked, 'locked')
    if (rule === true && !resource.parent) return found
    const others = await resource.select.byValues(
      tx,
      conflict,
      values.filter((value) => !found.has(value)),
    )
    return new Map([...this.#toExisting(others, 'refused'), ...found])
  }

  #toExisting(rows: readonly Row[], state: Existing['state']): Map<unknown, Existing> {
    const { conflict = '' } = this.#request
    return new Map(rows.map((row) => [row[conflict], { row, state }]))
  }

  /** Returns the values by which rows are found; none without a member that identifies them. */
  #readMembers(rows: readonly ReadRow[]): Promise<(FilterValue | undefined)[]> {
    if (this.#request.conflict === undefined) return Promise.resolve([])
    return mapInTurns(rows, (row) => this.#readMember(row), SHORT_TURN_MS)
  }

  /** Returns the value by which a row is found; undefined if it is wrong. */
  #readMember(row: ReadRow): FilterValue | undefined {
    const { context, bodies, readMember } = this.#tools
    const name = this.#conflictField ?? ''
    const { members, prefix } = context.options.representation.body<Fields>(bodies.toBody(row.value))
    const { value, violations } = readMember(name)(name in members ? { [name]: members[name] } : {})
    this.#violations.add(
      row,
      violations.map((each) => ({ ...each, field: `${prefix}${each.field}` })),
    )
    const found = isObject(value) && violations.length === 0 ? value[name] : undefined
    // A member that identifies rows has no other type, and is not null.
    return isFilterValue(found) ? found : undefined
  }

  /** Returns the value; undefined if an earlier row has it. */
  #refuseRepeated(value: FilterValue | undefined, row: ReadRow | undefined): FilterValue | undefined {
    if (value === undefined || !row) return undefined
    if (!this.#seen.has(value)) {
      this.#seen.add(value)
      return value
    }
    const { bodies, context } = this.#tools
    const { prefix } = context.options.representation.body<Fields>(bodies.toBody(row.value))
    const field = `${prefix}${this.#conflictField}`
    this.#violations.add(row, [createViolation(field, 'is the same as in an earlier row', 'ALREADY_EXISTS')])
    return undefined
  }

  /** Returns the write of a row; undefined if it is wrong. */
  #planRow(row: ReadRow, existing?: Existing): PlannedRow | undefined {
    const { bodies, operations } = this.#tools
    const current = existing?.row
    const mode = current ? 'update' : 'create'
    const sent = bodies.toBody(row.value)
    const validated = bodies.read[mode](sent)
    const { value, error } = validated
    const { request, reply, address, usedRights } = this.#request
    const createRefusal = existing?.state === 'refused' ? () => this.#createRefusal(existing.row) : undefined
    try {
      const body: SentBody<Fields> = isObject(value) ? value : sent
      const call: WriteCall = {
        request,
        reply,
        address: current ? { ...address, id: current.id } : address,
        body: existing && !error ? this.#withoutSame(body, existing) : body,
        preconditions: {},
        check: createCheck(validated),
        ...(usedRights && { usedRights }),
      }
      return { row, current, createRefusal, operation: operations[mode], input: operations[mode].read(call) }
    } catch (failure) {
      if (!isRowError(failure)) throw failure
      this.#violations.addError(row, failure)
      return undefined
    }
  }

  /**
   * Returns a body without the member that identifies the row, and without equal members that are immutable or that the
   * caller may only read. Of a row that the caller may not change, nothing is compared: the error would show its values.
   */
  #withoutSame(body: SentBody<Fields>, { row, state }: Existing): SentBody<Fields> {
    const { context, isSameIn } = this.#tools
    const { members } = context.options.representation.body(body)
    const kept: Record<string, unknown> = {}
    for (const field of Object.keys(members)) {
      if (field === this.#conflictField) continue
      const name = state === 'refused' ? undefined : this.#compared.get(field)
      if (name !== undefined && (state === 'found' || isSameIn(name, members[field], row[name]))) continue
      kept[field] = members[field]
    }
    return members === body ? kept : { data: { attributes: kept } }
  }

  /** Returns 403 or 404 for a row, found by its member, that the caller may not change. */
  #createRefusal(row: Row): Error {
    const { app, resource } = this.#tools.context
    const { parent } = this.#request.address
    const isOfParent = !resource.parent || row[resource.parent.member] === parent
    // Without the id: it says when the row was created.
    const message = `There is no ${toWords(resource.singular)} with this ${this.#conflictField}`
    const createNotFound = () => apiError('RESOURCE_NOT_FOUND', { message })
    return isOfParent ? app.refusal(createNotFound) : createNotFound()
  }
}
