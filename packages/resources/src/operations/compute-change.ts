/** Computes the change that a body makes to the current row, and checks that its state permits the change. */
import type { Actor } from '@resource-api/api/actor'
import { apiError, invalidBody, type Violation } from '@resource-api/api/errors'
import type { Fields } from '@resource-api/api/validation'
import type { Values } from '@resource-api/database/client'
import { isObject } from '@resource-api/database/values'
import type { Change, ChangeCode } from '../definition/code.ts'
import type { Resource } from '../definition/resource.ts'
import { getText, type Row } from '../definition/store.ts'
import { type BodyReader, createDefaults, mergePatch } from '../request/body.ts'
import { findConflictColumns } from '../sql/constraint-errors.ts'
import { createPickChanged } from '../sql/same-values.ts'

/**
 * Creates a function that returns the change that the fields of a body make to the current row, and the values that differ.
 * Objects of a PATCH are merged (RFC 7396), and a merged object must be as valid as one that was sent whole. It throws
 * ApiError 422 if it is not, or if a field differs that is immutable, or that the caller may not write.
 */
export function createComputeChange(resource: Resource, mode: 'replace' | 'update', reader: BodyReader) {
  const { columns, immutable = [], schemas } = resource
  const pickChanged = createPickChanged(columns)
  const defaults = new Map(
    Object.entries(schemas.change.properties).map(([name, schema]) => [name, createDefaults(schema)]),
  )
  const merge = (current: Row, fields: Fields): Fields => {
    const merged: Fields = {}
    for (const name of Object.keys(fields)) {
      const value = fields[name]
      if (!isObject(value)) continue
      const object = mergePatch(current[name], value)
      merged[name] = isObject(object) ? (defaults.get(name)?.(object) ?? object) : object
    }
    reader.checkMerged(merged)
    return Object.assign({}, fields, merged)
  }

  return (
    current: Row,
    fields: Fields,
    actor: Actor,
    locked: readonly string[] = [],
  ): { change: Change<Row>; values: Values } => {
    const merged = mode === 'replace' ? fields : merge(current, fields)
    const values = pickChanged(reader.toWritable(current), merged)
    const changed = new Set(Object.keys(values))
    checkImmutable([...immutable, ...locked, ...resource.forRole(actor.role).readOnly], changed)
    return { change: { next: Object.assign({}, current, values), changed }, values }
  }
}

/** @throws ApiError 422 if an immutable field has changed */
function checkImmutable(immutable: readonly string[], changed: ReadonlySet<string>): void {
  const violations = immutable
    .filter((name) => changed.has(name))
    .map((field): Violation => ({ field, message: 'cannot be changed', code: 'READ_ONLY' }))
  if (violations.length > 0) throw invalidBody(violations)
}

/** Returns what the error for a move says that a state does not allow. */
export function describeTransition(
  field: string,
  { from, to, allowed }: { from: string; to: string; allowed: readonly string[] },
) {
  const message = `cannot change from "${from}" to "${to}"; allowed: ${allowed.join(', ') || 'none'}`
  const violations = [{ field, message, code: 'INVALID_TRANSITION' as const }]
  return { message: `The ${field} ${message}`, violations }
}

/** @throws ApiError 409 for a state that may not follow the current one */
export function checkTransitions({ transitions = {} }: Resource, current: Row, next: Row): void {
  for (const [field, states] of Object.entries(transitions)) {
    const [from, to] = [getText(current, field), getText(next, field)]
    const allowed = states[from] ?? []
    if (from === to || allowed.includes(to)) continue
    throw apiError('RESOURCE_CONFLICT', describeTransition(field, { from, to, allowed }))
  }
}

/** Types for which equality in SQL is equality in JSON, so that the statement can compare values. */
const COMPARABLE_TYPES = /^(text|bigint|smallint|boolean)\b/

/**
 * Returns the columns whose new values depend on nothing else in the row, and conflict with no other row; none if the
 * route has code of its own.
 */
export function findSettableColumns(resource: Resource, code: ChangeCode<Row, Row>): ReadonlySet<string> {
  const { columns, immutable = [], references, rowParts, search, transitions = {} } = resource
  // Such a statement compares the revision that it has read with that of the row.
  const hasOwnWrites = code.guard || code.prepare || code.run || resource.hasExclusion
  if (hasOwnWrites || !rowParts.revision) return new Set()
  const dependent = new Set([
    ...immutable,
    ...Object.keys(transitions),
    ...findConflictColumns(resource),
    ...references.map(({ field }) => field),
    // The search text is made of all of these fields, so the others must be read.
    ...(rowParts.searched ? search : []),
  ])
  return new Set(
    Object.entries(columns)
      .filter(([name, column]) => !dependent.has(name) && COMPARABLE_TYPES.test(column.getSQLType()))
      .map(([name]) => name),
  )
}
