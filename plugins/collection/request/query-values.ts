/** Converts the text of query parameters to the types of their schemas, before it is validated. */
import type { TSchema } from '@sinclair/typebox'
import { toEmailAddress } from '../../../lib/email-address.ts'
import type { FieldCode, Violation } from '../../../schemas/error.ts'
import { hasLongMarkRun, LONG_MARK_RUN, MAX_UNITS_PER_CODE_POINT } from './text-limits.ts'

export type QueryValue = string | number | boolean

/** The values of valid parameters. Those of a list are sorted, and no two are equal. */
export type QueryValues = Readonly<Record<string, QueryValue | readonly QueryValue[]>>

export const createViolation = (field: string, message: string, code: FieldCode): Violation => ({
  field,
  message,
  code,
})

/** Returns the text of a parameter that is no list. */
export const toText = (value: QueryValues[string] | undefined): string | undefined =>
  value === undefined || typeof value === 'object' ? undefined : String(value)

/** Splits the names in `sort`, `order`, `fields` or `include`. */
export const split = (value: QueryValues[string] | undefined): string[] => toText(value)?.split(',') ?? []

/** Converts a number in JSON's notation. One that is too large to be exact is beyond the range of each parameter too. */
function toNumber(text: string, pattern: RegExp): number | string {
  if (!pattern.test(text)) return text
  return Math.max(-Number.MAX_VALUE, Math.min(Number.MAX_VALUE, Number(text)))
}

const INTEGER = /^(?:0|-?[1-9]\d*)$/
const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/

/** Normalizes a text like those of bodies: NFC and trimmed. Returns undefined after a violation. */
function readText(
  name: string,
  value: string,
  maxLength: number,
  violations: Violation[],
): string | undefined {
  const text = value.trim()
  if (text.length > maxLength * MAX_UNITS_PER_CODE_POINT) {
    violations.push(createViolation(name, `must NOT have more than ${maxLength} characters`, 'TOO_LONG'))
    return undefined
  }
  if (hasLongMarkRun(text)) {
    violations.push(createViolation(name, LONG_MARK_RUN, 'INVALID_FORMAT'))
    return undefined
  }
  if (/\p{Cc}/u.test(text)) {
    violations.push(createViolation(name, 'must not contain control characters', 'INVALID_FORMAT'))
    return undefined
  }
  return text.normalize('NFC')
}

/** A time whose `+` was not encoded: in a query string it stands for a space. */
const TIME_WITH_SPACE = /T[0-9:.]+ \d\d:\d\d$/i

/** Converts a value to the type of its parameter. Returns undefined after a violation. */
function readScalar(
  schema: TSchema,
  name: string,
  sent: string,
  violations: Violation[],
): QueryValue | undefined {
  switch (schema.type) {
    case 'integer':
      return toNumber(sent, INTEGER)
    case 'number':
      return toNumber(sent, NUMBER)
    case 'boolean':
      return sent === 'true' || (sent === 'false' ? false : sent)
  }
  switch (schema.format) {
    case 'uuid':
      return sent.toLowerCase()
    case 'email':
      // The validator refuses other characters than ASCII; in lower case, some of them would be ASCII letters.
      return toEmailAddress(sent) ?? sent
    case 'date-time':
    case 'date-or-time':
      if (!TIME_WITH_SPACE.test(sent)) return sent
      violations.push(
        createViolation(name, 'must have "+" encoded as %2B in the query string', 'INVALID_FORMAT'),
      )
      return undefined
  }
  return schema['x-trim'] ? readText(name, sent, schema.maxLength, violations) : sent
}

const compare = (a: QueryValue, b: QueryValue) => {
  if (a === b) return 0
  return a < b ? -1 : 1
}

/** Returns the different values of a list. Reads no further than the first one beyond `maxItems`. */
function readList(
  { items, maxItems }: TSchema,
  name: string,
  sent: string,
  violations: Violation[],
): QueryValue[] | undefined {
  const values = new Set<QueryValue>()
  for (const text of new Set(sent.split(','))) {
    const value = readScalar(items, name, text, violations)
    if (value === undefined) return undefined
    values.add(value)
    if (values.size > maxItems) {
      const message = `must not have more than ${maxItems} different values`
      violations.push(createViolation(name, message, 'TOO_LONG'))
      return undefined
    }
  }
  return [...values].sort(compare)
}

/** Converts the text of a parameter to the type of its schema. Returns undefined after a violation. */
export const readValue = (schema: TSchema, name: string, sent: string, violations: Violation[]) =>
  schema.type === 'array'
    ? readList(schema, name, sent, violations)
    : readScalar(schema, name, sent, violations)
