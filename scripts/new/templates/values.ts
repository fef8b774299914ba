/** Chooses values of the fields for examples, demo rows and tests. */
import { toWords } from '../../../packages/http/src/lib/to-words.ts'
import { exampleId } from '../../../packages/http/src/schemas/types.ts'
import { type BoundedField, type DecimalField, type Field, formatDecimal } from '../fields.ts'
import type { ResourcePlan } from '../resource-plan.ts'
import type { Value } from './code.ts'

/** Returns the first state that may follow the initial one. */
export function getSecondState({ states }: ResourcePlan): string | undefined {
  const [following] = states?.values() ?? []
  return following?.[0]
}

/** Returns a text with the length that the field allows. */
const fit = (text: string, { min, max }: BoundedField) =>
  text.padEnd(min, '.').slice(0, max).trim().padEnd(min, '.')

/** A moment on the first day of the examples: the second one is an hour later. */
const getMoment = (position: number) => new Date(Date.UTC(2026, 11, 1, 9 + position, 30)).toISOString()

const getDecimal = (field: DecimalField, value: number) =>
  formatDecimal(field.precision > field.scale ? value : 0, field)

const listTexts = (word: string, { min }: BoundedField) =>
  Array.from({ length: Math.max(1, min) }, (_, i) => `${word} ${i + 1}`)

/** Returns a valid value, as an example in the documents and in the test; undefined for a reference. */
export function getExample(field: Field): Value | undefined {
  switch (field.type) {
    case 'text':
    case 'multiline': {
      return fit(`Example ${toWords(field.name)}`, field)
    }
    case 'texts':
      return listTexts('Example', field)
    case 'integer':
      return Math.min(field.max, Math.max(field.min, 5))
    case 'money':
      return Math.min(field.max, Math.max(field.min, 1999))
    case 'decimal':
      return getDecimal(field, 5)
    case 'boolean':
      return true
    case 'date':
      return new Date(Date.UTC(2026, 11, 1 + field.position)).toISOString().slice(0, 10)
    case 'time':
      return getMoment(field.position).slice(11, 19)
    case 'timestamp':
      return getMoment(field.position)
    case 'enum':
      return field.default ?? field.values[0]
    case 'email':
      return 'ada@example.com'
    case 'url':
      return 'https://example.com'
    case 'uuid':
      return exampleId
    case 'currency':
      return field.default ?? 'USD'
    case 'ref':
      return undefined
  }
}

/** Returns another valid value, if the type has one that is easy to find. */
export function getOther(field: Field): Value | undefined {
  const example = getExample(field)
  switch (field.type) {
    case 'text':
    case 'multiline':
      return fit(`Changed ${toWords(field.name)}`, field)
    case 'texts':
      return listTexts('Changed', field)
    case 'integer':
    case 'money':
      return field.max === example ? field.min : field.max
    case 'decimal':
      return getDecimal(field, 6)
    case 'boolean':
      return field.default === false
    case 'currency':
      return example === 'EUR' ? 'USD' : 'EUR'
    case 'email':
      return 'changed@example.com'
    case 'url':
      return 'https://example.com/changed'
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
    case 'texts':
      return { value: "'x'", code: 'INVALID_TYPE' }
    case 'integer':
    case 'money':
      return Number.isSafeInteger(field.max + 1)
        ? { value: String(field.max + 1), code: 'OUT_OF_RANGE' }
        : { value: "'1'", code: 'INVALID_TYPE' }
    case 'decimal':
      return { value: "'1e1'", code: 'INVALID_FORMAT' }
    case 'boolean':
      return { value: "'yes'", code: 'INVALID_TYPE' }
    case 'date':
      return { value: "'2026-02-30'", code: 'INVALID_FORMAT' }
    case 'time':
      return { value: "'24:00:00'", code: 'INVALID_FORMAT' }
    case 'timestamp':
      return { value: "'yesterday'", code: 'INVALID_FORMAT' }
    case 'enum':
      return { value: "'other_value'", code: 'INVALID_VALUE' }
    case 'email':
      return { value: "'no address'", code: 'INVALID_FORMAT' }
    case 'url':
      return { value: "'http://example.com'", code: 'INVALID_FORMAT' }
    case 'uuid':
      return { value: "'1'", code: 'INVALID_FORMAT' }
    case 'currency':
      return { value: "'EURO'", code: 'INVALID_FORMAT' }
    case 'ref':
      return undefined
  }
}
