/** Describes the values that a setting accepts, for error messages and for the table of settings. */
import type { TSchema } from '@sinclair/typebox'
import { formats, isFormatName } from './formats.ts'

function describeBounds(minimum: number | undefined, maximum: number | undefined, unit: string): string {
  if (minimum !== undefined && maximum !== undefined) return `${minimum} to ${maximum}${unit}`
  if (minimum !== undefined) return minimum > 1 ? `${minimum}${unit} or more` : ''
  return maximum === undefined ? '' : `at most ${maximum}${unit}`
}

function describeText(schema: TSchema): string {
  if (Array.isArray(schema.enum)) return `one of ${schema.enum.join(', ')}`
  const length = describeBounds(schema.minLength, schema.maxLength, ' characters')
  if (!isFormatName(schema.format)) return length || 'text'
  const expected = formats[schema.format].expects
  return length ? `${expected}, ${length}` : expected
}

/** Returns a phrase such as `an integer from 0 to 65535`. */
export function describeExpected(schema: TSchema): string {
  switch (schema.type) {
    case 'integer':
      return `an integer from ${describeBounds(schema.minimum, schema.maximum, '')}`
    case 'boolean':
      return 'true or false'
    case 'array':
      return `a comma-separated list, each ${describeText(schema.items)}`
    default:
      return describeText(schema)
  }
}
