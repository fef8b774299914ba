/** Chooses values of the fields for examples and tests. */
import { toWords } from '../../../lib/to-words.ts'
import type { BoundedField, Field } from '../fields.ts'

/** Returns a text with the length that the field allows. */
const fit = (text: string, { min, max }: BoundedField) =>
  text.padEnd(min, '.').slice(0, max).trim().padEnd(min, '.')

/** Returns a valid value, as an example in the documents and in the test; undefined for a reference. */
export function getExample(field: Field): string | number | boolean | undefined {
  switch (field.type) {
    case 'text':
    case 'multiline': {
      return fit(`Example ${toWords(field.name)}`, field)
    }
    case 'integer':
      return Math.min(field.max, Math.max(field.min, 5))
    case 'money':
      return Math.min(field.max, Math.max(field.min, 1999))
    case 'boolean':
      return true
    case 'date':
      return '2026-12-01'
    case 'timestamp':
      return '2026-12-01T09:30:00.000Z'
    case 'enum':
      return field.default ?? field.values[0]
    case 'url':
      return 'https://example.com'
    case 'currency':
      return field.default ?? 'USD'
    case 'ref':
      return undefined
  }
}

/** Returns another valid value, if the type has one that is easy to find. */
export function getOther(field: Field): string | number | boolean | undefined {
  const example = getExample(field)
  switch (field.type) {
    case 'text':
    case 'multiline':
      return fit(`Changed ${toWords(field.name)}`, field)
    case 'integer':
    case 'money':
      return field.max === example ? field.min : field.max
    case 'boolean':
      return false
    case 'enum':
      return field.values.find((value) => value !== example)
    default:
      return example
  }
}

/** Returns a value that the field rejects, as code, and the code of the violation; undefined for a reference. */
export function getInvalid(field: Field): { value: string; code: string } | undefined {
  switch (field.type) {
    case 'text':
    case 'multiline':
      return { value: `'x'.repeat(${field.max + 1})`, code: 'TOO_LONG' }
    case 'integer':
    case 'money':
      return Number.isSafeInteger(field.max + 1)
        ? { value: String(field.max + 1), code: 'OUT_OF_RANGE' }
        : { value: "'1'", code: 'INVALID_TYPE' }
    case 'boolean':
      return { value: "'yes'", code: 'INVALID_TYPE' }
    case 'date':
      return { value: "'2026-02-30'", code: 'INVALID_FORMAT' }
    case 'timestamp':
      return { value: "'yesterday'", code: 'INVALID_FORMAT' }
    case 'enum':
      return { value: "'other_value'", code: 'INVALID_VALUE' }
    case 'url':
      return { value: "'http://example.com'", code: 'INVALID_FORMAT' }
    case 'currency':
      return { value: "'EURO'", code: 'INVALID_FORMAT' }
    case 'ref':
      return undefined
  }
}
