/** Replaces `$n` in an operation of a batch by the id of the resource that operation n creates. */
import type { Violation } from '@resource-api/api/errors'
import { createViolation } from '@resource-api/api/validation'
import type { RowId } from '@resource-api/database/key'
import { isObject } from '@resource-api/database/values'
import type { TSchema } from '@sinclair/typebox'

const REFERENCE = /^\$\d+$/

/** Returns the id for `$n`; undefined unless an earlier operation creates a resource. */
export type FindCreatedId = (reference: string) => RowId | undefined

/** @param schema that of the value: `$n` is replaced where it is that of an id, and is a text elsewhere */
export function replaceCreatedIds(
  value: unknown,
  schema: TSchema | undefined,
  path: string,
  find: FindCreatedId,
  violations: Violation[],
): unknown {
  if (typeof value === 'string') {
    const { format, type, 'x-id': id } = schema?.['x-documented'] ?? schema ?? {}
    if (format !== 'uuid' && format !== 'uuid-or-me' && id !== 'reference') return value
    if (!REFERENCE.test(value)) return value
    const created = find(value)
    if (created !== undefined) return created
    violations.push(createViolation(path, 'is no earlier operation that creates a resource', 'INVALID_VALUE'))
    if ([type].flat().includes('integer')) return Number(value.slice(1))
    // A valid id, another for each reference: the value has no second violation.
    return `00000000-0000-0000-0000-${value.slice(1).slice(-12).padStart(12, '0')}`
  }
  if (Array.isArray(value)) {
    return schema?.items && value.length <= (schema.maxItems ?? value.length)
      ? value.map((item, i) => replaceCreatedIds(item, schema.items, `${path}.${i}`, find, violations))
      : value
  }
  if (!isObject(value) || !schema?.properties) return value
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => {
      const property = Object.hasOwn(schema.properties, name) ? schema.properties[name] : undefined
      return [name, replaceCreatedIds(member, property, `${path}.${name}`, find, violations)]
    }),
  )
}
