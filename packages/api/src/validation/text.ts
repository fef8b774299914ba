/** Converts the text of query strings, paths and headers to the types of their schemas, and validates it. */
import { isObject, isUuid, toEmailAddress } from '@resource-api/database/values'
import type { TSchema } from '@sinclair/typebox'
import { LRUCache } from 'lru-cache'
import { type FieldCode, MAX_VIOLATIONS, type Violation } from '../errors/codes.ts'
import { type ApiError, apiError, invalidQuery } from '../errors/errors.ts'
import type { Validated } from './body.ts'
import { compileSchema } from './formats.ts'
import { normalizeText } from './normalize.ts'
import { getDecode } from './schema-functions.ts'
import { deduplicate, toViolations } from './violations.ts'

type Value = string | number | boolean
type Validator = (sent: unknown) => Validated

export const createViolation = (field: string, message: string, code: FieldCode): Violation => ({
  field,
  message,
  code,
})

/** JSON's notation. A number that is too large to be exact is beyond the range of each parameter too. */
export const NUMBERS: Record<string, RegExp> = {
  integer: /^(?:0|-?[1-9]\d*)$/,
  number: /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/,
}

/** A time whose `+` was not encoded: in a query string it stands for a space. */
const TIME_WITH_SPACE = /T[0-9:.]+ \d\d:\d\d$/i

/** Converts a value to the type of its schema. Returns undefined after a violation. */
function readScalar(schema: TSchema, name: string, sent: string, violations: Violation[]): Value | undefined {
  const { type, format } = schema
  if (NUMBERS[type]) {
    if (!NUMBERS[type].test(sent)) return sent
    return Math.max(-Number.MAX_VALUE, Math.min(Number.MAX_VALUE, Number(sent)))
  }
  if (type === 'boolean') return sent === 'true' || (sent === 'false' ? false : sent)
  if (format === 'uuid' || (format === 'uuid-or-me' && isUuid(sent))) return sent.toLowerCase()
  // The validator refuses other characters than ASCII; in lower case, some of them would be ASCII letters.
  if (format === 'email') return toEmailAddress(sent) ?? sent
  const count = violations.length
  if ((format === 'date-time' || format === 'date-or-time') && TIME_WITH_SPACE.test(sent)) {
    const message = 'must have "+" encoded as %2B in the query string'
    violations.push(createViolation(name, message, 'INVALID_FORMAT'))
  }
  const { maxLength, 'x-trim': trim } = schema
  const value =
    trim === undefined
      ? sent
      : normalizeText(sent, { maxLength, 'x-trim': trim }, name, { violations, settled: new Set() })
  return violations.length > count ? undefined : value
}

const compare = (a: Value, b: Value) => {
  if (a === b) return 0
  return a < b ? -1 : 1
}

/** Returns the values in a list: `\,` is a comma of a value, `\\` a backslash, and another backslash stands for itself. */
function splitList(sent: string): string[] {
  if (!sent.includes('\\')) return sent.split(',')
  const texts = ['']
  for (const piece of sent.match(/\\[\\,]|,|[^\\,]+|\\/g) ?? []) {
    if (piece === ',') texts.push('')
    else texts.push(`${texts.pop()}${piece.length === 2 && piece[0] === '\\' ? piece[1] : piece}`)
  }
  return texts
}

/** Returns the different values of a list, sorted. Reads no further than the first one beyond `maxItems`. */
function readList(
  { items, maxItems }: TSchema,
  name: string,
  sent: string,
  violations: Violation[],
): Value[] | undefined {
  const values = new Set<Value>()
  for (const text of new Set(splitList(sent))) {
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

/** Creates the validator of named texts. A list is sent as its values with commas. */
function compileTexts(schema: TSchema, toError: (violations: readonly Violation[]) => ApiError): Validator {
  const validate = compileSchema(schema)
  const decode = getDecode(schema)
  const properties = new Map<string, TSchema>(Object.entries(schema.properties ?? {}))
  const known = properties.size === 0 ? 'there are none' : `there are ${[...properties.keys()].join(', ')}`
  const isClosed = schema.additionalProperties === false

  return (sent) => {
    const violations: Violation[] = []
    const values: Record<string, unknown> = {}
    for (const [name, text] of Object.entries(isObject(sent) ? sent : {})) {
      if (violations.length >= MAX_VIOLATIONS) return { error: toError(violations) }
      const property = properties.get(name)
      if (!property) {
        if (!isClosed) values[name] = text
        else violations.push(createViolation(name, `is not a known parameter; ${known}`, 'UNKNOWN_PARAMETER'))
      } else if (typeof text !== 'string') {
        violations.push(createViolation(name, 'must not be repeated', 'CONFLICTING_PARAMETERS'))
      } else {
        const read = property.type === 'array' ? readList : readScalar
        const value = read(property, name, text, violations)
        if (value !== undefined) values[name] = value
      }
    }
    if (!validate(values)) {
      // The values of a list are named by its parameter: `status`, not `status.0`.
      const invalid = toViolations(validate.errors ?? []).map((each) => ({
        ...each,
        field: each.field.replace(/\.\d+$/, ''),
      }))
      violations.push(...deduplicate(invalid))
    }
    if (violations.length >= MAX_VIOLATIONS) return { error: toError(violations) }
    for (const { field } of violations) delete values[field]
    const value = decode ? decode(values, violations) : values
    return violations.length > 0 ? { error: toError(violations) } : { value }
  }
}

/** Keywords of schemas that any text is valid by. */
const ANNOTATIONS = ['type', 'description', 'examples', 'x-documented', 'x-component']

const isAnyText = (schema: TSchema) =>
  schema.type === 'string' && Object.keys(schema).every((keyword) => ANNOTATIONS.includes(keyword))

/** Query strings that are kept for each route. Without them, W2 of the bench takes 4 % more CPU. */
const MAX_CACHED_QUERIES = 500
const MAX_CACHED_LENGTH = 300

/**
 * Compiles the schema of a query string. All violations are reported together. What a schema's `decode` returns is kept for
 * equal query strings, apart from parameters that any text is valid for, which are added as they were sent: a cursor is
 * another one in each request.
 */
export function compileQuery(schema: TSchema): Validator {
  const read = compileTexts(schema, invalidQuery)
  if (!getDecode(schema)) return read
  const properties: [string, TSchema][] = Object.entries(schema.properties)
  const anyTexts = properties.filter(([, property]) => isAnyText(property)).map(([name]) => name)
  const cache = new LRUCache<string, Validated>({ max: MAX_CACHED_QUERIES })

  const readCached = (sent: unknown): Validated => {
    const key = JSON.stringify(sent)
    const cached = cache.get(key)
    if (cached) return cached
    const validated = read(sent)
    if (!validated.error && key.length <= MAX_CACHED_LENGTH) cache.set(key, validated)
    return validated
  }
  return (sent) => {
    const names = isObject(sent) ? anyTexts.filter((name) => typeof sent[name] === 'string') : []
    if (!isObject(sent) || names.length === 0) return readCached(sent)
    const texts: Record<string, unknown> = {}
    const others = { ...sent }
    for (const name of names) {
      texts[name] = sent[name]
      // Present, since that may exclude another parameter.
      others[name] = ''
    }
    const { error, value } = readCached(others)
    return error ? { error } : { value: Object.assign({}, value, texts) }
  }
}

/** Compiles the schema of a path's parameters. A path that does not fit its schema cannot exist. */
export const compileParams = (schema: TSchema): Validator =>
  compileTexts(schema, (violations) => {
    const isId = violations.every(({ code }) => code === 'INVALID_FORMAT')
    return apiError('RESOURCE_NOT_FOUND', isId ? { message: 'The id in the path is not a UUID' } : {})
  })

/** Compiles the schema of header fields, whose names are case-insensitive. The handler gets the declared ones converted. */
export function compileHeaders(schema: TSchema): (sent: unknown) => Validated | true {
  const properties = Object.entries<TSchema>(schema.properties ?? {}).map(
    ([name, property]) => [name.toLowerCase(), property] as const,
  )
  const required: readonly string[] = schema.required ?? []
  // Fastify copies all header fields whenever a handler reads them, once a validator has returned a value.
  if (required.length === 0 && properties.every(([, property]) => isAnyText(property))) return () => true
  const lowercase = {
    ...schema,
    properties: Object.fromEntries(properties),
    required: required.map((name) => name.toLowerCase()),
  }
  return compileTexts(lowercase, (violations) =>
    apiError('INVALID_REQUEST', { message: 'The request has invalid header fields', violations }),
  )
}
