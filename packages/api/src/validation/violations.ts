/** Converts Ajv's errors to violations: a path from the root of the body, a message and a code. */
import type { ErrorObject } from 'ajv'
import type { FieldCode, Violation } from '../errors/codes.ts'

/** Those of other keywords are INVALID_VALUE. */
const codesByKeyword: Record<string, FieldCode> = {
  required: 'REQUIRED',
  type: 'INVALID_TYPE',
  format: 'INVALID_FORMAT',
  pattern: 'INVALID_FORMAT',
  minLength: 'TOO_SHORT',
  minItems: 'TOO_SHORT',
  maxLength: 'TOO_LONG',
  maxItems: 'TOO_LONG',
  minimum: 'OUT_OF_RANGE',
  maximum: 'OUT_OF_RANGE',
  exclusiveMinimum: 'OUT_OF_RANGE',
  exclusiveMaximum: 'OUT_OF_RANGE',
  additionalProperties: 'UNKNOWN_FIELD',
}

/** Splits a JSON pointer: `/items/0/quantity` is the path `items.0.quantity`. */
const parsePointer = (pointer: string) => {
  const [, ...segments] = pointer.split('/')
  return segments.map((segment) => segment.replaceAll('~1', '/').replaceAll('~0', '~'))
}

/** The messages of formats whose names do not say enough. */
const formatMessages: Readonly<Record<string, string>> = {
  'date-or-time': 'must be a date (YYYY-MM-DD) or an RFC 3339 time with its offset, of a day that exists',
  'time-of-day': 'must be a time of day (hh:mm:ss)',
}

function getMessage(error: ErrorObject): string {
  switch (error.keyword) {
    case 'required':
      return 'is required'
    case 'additionalProperties':
      return 'is not a known field'
    case 'enum': {
      const allowed: unknown[] = error.params.allowedValues
      return `must be one of ${allowed.filter((value) => value !== null).join(', ')}`
    }
    case 'format':
      return formatMessages[error.params.format] ?? `must be a valid ${error.params.format}`
    default:
      return error.message ?? 'is invalid'
  }
}

/** Converts errors to violations. For a value of the wrong type, only the type is reported. */
export function toViolations(errors: readonly ErrorObject[]): Violation[] {
  const mistyped = new Set(
    errors.filter(({ keyword }) => keyword === 'type').map(({ instancePath }) => instancePath),
  )
  return errors.flatMap((error) => {
    const { instancePath, keyword, params } = error
    if (keyword !== 'type' && mistyped.has(instancePath)) return []
    const path = parsePointer(instancePath)
    if (keyword === 'required') path.push(params.missingProperty)
    if (keyword === 'additionalProperties') path.push(params.additionalProperty)
    const code = codesByKeyword[keyword] ?? 'INVALID_VALUE'
    return { field: path.join('.'), message: getMessage(error), code }
  })
}

/**
 * Removes violations with the same code and field, keeping the first. A control character in an email address, for
 * example, is found as a control character and as an invalid format.
 */
export function deduplicate(violations: readonly Violation[]): Violation[] {
  const found = new Map<string, Violation>()
  for (const each of violations) {
    const key = `${each.code} ${each.field}`
    if (!found.has(key)) found.set(key, each)
  }
  return [...found.values()]
}
