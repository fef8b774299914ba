/** Plans the rows of an import: which one creates, which one changes a row that exists, and what it writes. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Transaction } from '../../../drizzle/client/types.ts'
import { isObject } from '../../../lib/is-object.ts'
import { mapInTurns, SHORT_TURN_MS } from '../../../lib/map-in-turns.ts'
import { toWords } from '../../../lib/to-words.ts'
import type { Violation } from '../../../schemas/error.ts'
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
import { listPermitted, type OperationContext } from './context.ts'
import { isRowError, type RowViolations } from './row-violations.ts'
import type { WriteOperation, WritePlan } from './write-plan.ts'

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
}

/** A row with the write that it means. */
export interface PlannedRow {
  row: SentRow
  plan: WritePlan
  /** The row that the member identifies; undefined for a new one. */
  current: Row | undefined
  /** 403 or 404 if the caller may not change the current row. */
  refusal: Error | undefined
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
  /** The rows that exist and that the caller may change. */
  readonly #permitted = new WeakSet<Row>()

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

  /** Returns the writes of rows, and locks those that exist. Rows that are wrong have none. */
  async plan(tx: Transaction, group: readonly SentRow[]): Promise<PlannedRow[]> {
    const readable = group.filter((row): row is ReadRow => {
      this.#violations.add(row, row.violations)
      return row.value !== undefined && row.violations.length === 0
    })
    const { conflict } = this.#request
    if (conflict === undefined) {
      return (await mapInTurns(readable, (row) => this.#planRow(row), SHORT_TURN_MS)).filter(isDefined)
    }
    const sent = await mapInTurns(readable, (row) => this.#readMember(row), SHORT_TURN_MS)
    const values = sent.filter(isDefined)
    const rows = await this.#tools.context.resource.select.byValues(tx, conflict, values)
    const { resource } = this.#tools.context
    const { actor } = this.#request.address
    const scope = { rule: getRule(resource.access, 'update', actor), actor }
    for (const row of await listPermitted(resource, tx, rows, scope)) this.#permitted.add(row)
    const existing = new Map(rows.map((row) => [row[conflict], row]))
    const planRow = (row: ReadRow, i: number) => {
      const value = sent[i]
      return value === undefined ? undefined : this.#planRow(row, existing.get(value))
    }
    return (await mapInTurns(readable, planRow, SHORT_TURN_MS)).filter(isDefined)
  }

  /** Returns the value by which a row is found; undefined if it is wrong. */
  #readMember(row: ReadRow): FilterValue | undefined {
    const { context, bodies, readMember } = this.#tools
    const name = this.#conflictField ?? ''
    const { members, prefix } = context.options.representation.body<Fields>(bodies.toBody(row.value))
    const { value, violations } = readMember(name)(name in members ? { [name]: members[name] } : {})
    const refuse = (wrong: readonly Violation[]) =>
      this.#violations.add(
        row,
        wrong.map((each) => ({ ...each, field: `${prefix}${each.field}` })),
      )
    if (violations.length > 0) return void refuse(violations)
    const found = isObject(value) ? value[name] : undefined
    // A member that identifies rows has no other type, and is not null.
    if (!isFilterValue(found)) return undefined
    if (!this.#seen.has(found)) {
      this.#seen.add(found)
      return found
    }
    refuse([createViolation(name, 'is the same as in an earlier row', 'ALREADY_EXISTS')])
  }

  /** Returns the write of a row; undefined if it is wrong. */
  #planRow(row: ReadRow, current?: Row): PlannedRow | undefined {
    const { bodies, operations } = this.#tools
    const mode = current ? 'update' : 'create'
    const sent = bodies.toBody(row.value)
    const validated = bodies.read[mode](sent)
    const { value, error } = validated
    const { request, reply, address } = this.#request
    const refusal = current && this.#findRefusal(current)
    try {
      const body: SentBody<Fields> = isObject(value) ? value : sent
      const call: WriteCall = {
        request,
        reply,
        address: current ? { ...address, id: current.id } : address,
        body: current && !error ? this.#withoutSame(body, current, refusal) : body,
        preconditions: {},
        check: createCheck(validated),
      }
      return { row, current, refusal, plan: operations[mode].plan(call) }
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
  #withoutSame(body: SentBody<Fields>, current: Row, refusal: Error | undefined): SentBody<Fields> {
    const { context, isSameIn } = this.#tools
    const { members } = context.options.representation.body(body)
    const kept: Record<string, unknown> = {}
    for (const field of Object.keys(members)) {
      if (field === this.#conflictField) continue
      const name = refusal ? undefined : this.#compared.get(field)
      if (name !== undefined && isSameIn(name, members[field], current[name])) continue
      kept[field] = members[field]
    }
    return members === body ? kept : { data: { attributes: kept } }
  }

  /** Returns 403 or 404 for a row, found and locked by its member, that the caller may not change. */
  #findRefusal(current: Row): Error | undefined {
    const { app, resource } = this.#tools.context
    const { parent } = this.#request.address
    const isOfParent = !resource.parent || current[resource.parent.member] === parent
    if (isOfParent && this.#permitted.has(current)) return undefined
    // Without the id: it says when the row was created.
    const message = `There is no ${toWords(resource.singular)} with this ${this.#conflictField}`
    const createNotFound = () => apiError('RESOURCE_NOT_FOUND', { message })
    return isOfParent ? app.refusal(createNotFound) : createNotFound()
  }
}
