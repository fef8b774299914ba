/** What Ajv finds, in the contract's words: a path from the root of the body, a sentence, a code. */
import type { ErrorObject } from 'ajv'
import type { FieldCode, Violation } from '../../schemas/error.ts'

const codes: Record<string, FieldCode> = {
  required: 'REQUIRED',
  type: 'INVALID_TYPE',
  format: 'INVALID_FORMAT',
  pattern: 'INVALID_FORMAT',
  enum: 'INVALID_VALUE',
  const: 'INVALID_VALUE',
  minLength: 'TOO_SHORT',
  minItems: 'TOO_SHORT',
  maxLength: 'TOO_LONG',
  maxItems: 'TOO_LONG',
  minimum: 'OUT_OF_RANGE',
  maximum: 'OUT_OF_RANGE',
  exclusiveMinimum: 'OUT_OF_RANGE',
  exclusiveMaximum: 'OUT_OF_RANGE',
  additionalProperties: 'UNKNOWN_FIELD',
  uniqueItems: 'INVALID_VALUE',
  'x-unique-by': 'INVALID_VALUE',
}

const unescapeSegment = (segment: string) => segment.replaceAll('~1', '/').replaceAll('~0', '~')

/** A JSON pointer as the contract writes paths: `/items/0/quantity` is `items.0.quantity`. */
const pathOf = (pointer: string) => pointer.split('/').slice(1).map(unescapeSegment)

const sentence = (error: ErrorObject): string => {
  switch (error.keyword) {
    case 'required':
      return 'is required'
    case 'additionalProperties':
      return 'is not a known member'
    case 'enum':
      return `must be one of ${(error.params.allowedValues as unknown[]).filter((value) => value !== null).join(', ')}`
    case 'format':
      return `must be a valid ${error.params.format}`
    default:
      return error.message ?? 'is invalid'
  }
}

/** One violation for each thing that is wrong; where a value has the wrong type, nothing more is said of it. */
export function toViolations(errors: readonly ErrorObject[]): Violation[] {
  const mistyped = new Set(
    errors.filter(({ keyword }) => keyword === 'type').map(({ instancePath }) => instancePath),
  )
  const telling = errors.filter(
    ({ keyword, instancePath }) => keyword === 'type' || !mistyped.has(instancePath),
  )
  return telling.map((error) => {
    const path = pathOf(error.instancePath)
    if (error.keyword === 'required') path.push(error.params.missingProperty)
    if (error.keyword === 'additionalProperties') path.push(error.params.additionalProperty)
    return {
      field: path.join('.'),
      message: sentence(error),
      code: codes[error.keyword] ?? 'INVALID_VALUE',
    }
  })
}

/** Each thing once: a control character, say, ends the format of an e-mail address too. */
export const distinct = (violations: readonly Violation[]): Violation[] =>
  [
    ...new Map(violations.toReversed().map((each) => [`${each.code} ${each.field}`, each])).values(),
  ].toReversed()
