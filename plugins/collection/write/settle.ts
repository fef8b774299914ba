/** Computes the change that a body makes to the current row, and checks that it is allowed. */
import { isObject } from '../../../lib/is-object.ts'
import type { Violation } from '../../../schemas/error.ts'
import { apiError, invalidBody } from '../../errors/index.ts'
import type { Resource } from '../compile.ts'
import { type Change, getText, type Row } from '../definition.ts'
import { createDefaults, mergePatch } from '../request/body.ts'
import { createIsSameIn } from '../sql/same-value.ts'
import type { ChangingWrite } from './types.ts'

/**
 * Creates a function that returns the fields of the body as they will stand in the row. PATCH merges objects (RFC 7396),
 * and the merged object must be as valid as one that was sent whole.
 */
function createMerge({ schemas }: Resource) {
  const defaults = new Map(
    Object.entries(schemas.change.properties).map(([name, schema]) => [name, createDefaults(schema)]),
  )
  return (current: Row, { mode, reader, fields }: ChangingWrite) => {
    if (mode === 'replace') return fields
    const merged: Record<string, unknown> = {}
    for (const [name, value] of Object.entries(fields)) {
      if (!isObject(value)) continue
      const fillDefaults = defaults.get(name)
      const object = mergePatch(current[name], value)
      merged[name] = fillDefaults && isObject(object) ? fillDefaults(object) : object
    }
    reader.checkMerged(merged)
    return { ...fields, ...merged }
  }
}

/** @throws ApiError 422 */
function checkImmutable({ immutable = [] }: Resource, current: Row, next: Row): void {
  const changed = immutable.filter((name) => next[name] !== current[name])
  if (changed.length === 0) return
  throw invalidBody(
    changed.map((field): Violation => ({ field, message: 'cannot be changed', code: 'READ_ONLY' })),
  )
}

/** @throws ApiError 409 */
function checkTransitions({ transitions = {} }: Resource, current: Row, next: Row): void {
  for (const [field, states] of Object.entries(transitions)) {
    const [from, to] = [getText(current, field), getText(next, field)]
    const allowed = states[from] ?? []
    if (from === to || allowed.includes(to)) continue
    const message = `cannot change from "${from}" to "${to}"; allowed: ${allowed.join(', ') || 'none'}`
    throw apiError('RESOURCE_CONFLICT', {
      message: `The ${field} ${message}`,
      violations: [{ field, message, code: 'INVALID_TRANSITION' }],
    })
  }
}

/**
 * Creates a function that returns the change that a body makes to the current row. It throws ApiError 403, 409, 412, 422
 * or 428, in the order of the API reference: fields, the resource's own guard, preconditions, transitions.
 */
export function createSettle(resource: Resource) {
  const merge = createMerge(resource)
  const isSameIn = createIsSameIn(resource.columns)
  return (current: Row, write: ChangingWrite): Change<Row> => {
    const merged = merge(current, write)
    const before = write.reader.toWritable(current)
    const changes = Object.entries(merged).filter(([name, value]) => !isSameIn(name, value, before[name]))
    const next: Row = { ...current, ...Object.fromEntries(changes) }
    const change: Change<Row> = { next, changed: new Set(changes.map(([name]) => name)) }
    checkImmutable(resource, current, next)
    resource.actions?.guard?.(current, change, write.actor)
    write.checkPrecondition?.(current)
    checkTransitions(resource, current, next)
    return change
  }
}
