/** Validates query strings against the parameters of an operation. */
import { type TObject, type TSchema, Type } from '@sinclair/typebox'
import type { Ajv } from 'ajv'
import type { FastifyRequest } from 'fastify'
import { LRUCache } from 'lru-cache'
import { type FieldCode, MAX_VIOLATIONS, type Violation } from '../../../schemas/error.ts'
import { apiError, invalidQuery } from '../../errors/index.ts'
import { toViolations } from '../../errors/violations.ts'
import { compileSchema } from '../../validation/formats.ts'
import { getMaxUnits, hasLongMarkRun, LONG_MARK_RUN } from './text-limits.ts'

/** The parameters of a query string, parsed by Fastify but not validated. */
export type RawQuery = Readonly<Record<string, unknown>>

/** The values of valid parameters. */
export type QueryValues = Readonly<Record<string, string | number | undefined>>

export const getQuery = ({ query }: FastifyRequest) => query as RawQuery

export interface ValidatedQuery {
  values: QueryValues
  /** The names of invalid parameters. */
  invalid: ReadonlySet<string>
  /** Further checks add theirs. */
  violations: Violation[]
}

export const createViolation = (field: string, message: string, code: FieldCode): Violation => ({
  field,
  message,
  code,
})

/** Converts an integer in JSON's notation. One beyond the safe integers is beyond the range of each parameter too. */
function toInteger(text: string): number | string {
  if (!/^(?:0|-?[1-9]\d*)$/.test(text)) return text
  return Math.max(Number.MIN_SAFE_INTEGER, Math.min(Number.MAX_SAFE_INTEGER, Number(text)))
}

/** Normalizes a text like those of bodies: NFC and trimmed. Returns undefined after a violation. */
function readText(
  name: string,
  value: string,
  maxLength: number,
  violations: Violation[],
): string | undefined {
  const text = value.trim()
  if (text.length > getMaxUnits(maxLength)) {
    violations.push(createViolation(name, `must NOT have more than ${maxLength} characters`, 'TOO_LONG'))
    return undefined
  }
  if (hasLongMarkRun(text)) {
    violations.push(createViolation(name, LONG_MARK_RUN, 'INVALID_FORMAT'))
    return undefined
  }
  return text.normalize('NFC')
}

/** Converts a value to the type of its parameter. Returns undefined after a violation. */
function readValue(parameter: TSchema, name: string, value: unknown, violations: Violation[]): unknown {
  if (typeof value !== 'string') return value
  if (parameter.type === 'integer') return toInteger(value)
  return parameter['x-trim'] ? readText(name, value, parameter.maxLength, violations) : value
}

/**
 * Checks the percent-encoding, which Fastify's parser passes through if it is invalid or not UTF-8.
 * @throws ApiError 400 INVALID_REQUEST
 */
function checkEncoding(url: string) {
  const queryIndex = url.indexOf('?')
  if (queryIndex === -1) return
  try {
    decodeURIComponent(url.slice(queryIndex))
  } catch (cause) {
    throw apiError('INVALID_REQUEST', {
      message: 'The query string is not valid percent-encoded UTF-8',
      cause,
    })
  }
}

/** Creates a function that validates the query strings of one operation. */
export function createQueryReader(ajv: Ajv, schema: TObject) {
  const validate = compileSchema(ajv, schema)

  return (query: RawQuery, url: string): ValidatedQuery => {
    checkEncoding(url)
    const violations: Violation[] = []
    const values: Record<string, unknown> = {}
    for (const [name, value] of Object.entries(query)) {
      if (violations.length >= MAX_VIOLATIONS) throw invalidQuery(violations)
      const parameter: TSchema | undefined = Object.hasOwn(schema.properties, name)
        ? schema.properties[name]
        : undefined
      if (!parameter) {
        violations.push(createViolation(name, 'is not a known parameter', 'UNKNOWN_PARAMETER'))
      } else if (Array.isArray(value)) {
        violations.push(createViolation(name, 'must not be repeated', 'CONFLICTING_PARAMETERS'))
      } else values[name] = readValue(parameter, name, value, violations)
    }
    if (!validate(values)) violations.push(...toViolations(validate.errors ?? []))
    const invalid = new Set(violations.map(({ field }) => field))
    const valid = Object.entries(values).filter(([name]) => !invalid.has(name))
    // The schemas of parameters allow only strings and integers.
    return { values: Object.fromEntries(valid) as QueryValues, invalid, violations }
  }
}

/** Query strings that are kept for each list of each version. */
const MAX_KEPT_QUERIES = 2_000
const MAX_KEPT_QUERY_LENGTH = 512

/** Keeps the results of a function by query string: they do not depend on the caller, and clients repeat few queries. */
export function cacheByQuery<T extends object>(read: (query: RawQuery, url: string) => T): typeof read {
  const results = new LRUCache<string, T>({ max: MAX_KEPT_QUERIES })
  return (query, url) => {
    const queryIndex = url.indexOf('?')
    const queryString = queryIndex === -1 ? '' : url.slice(queryIndex)
    const known = results.get(queryString)
    if (known) return known
    const result = read(query, url)
    if (queryString.length <= MAX_KEPT_QUERY_LENGTH) results.set(queryString, result)
    return result
  }
}

/**
 * Creates a function that refuses all parameters, for operations without any.
 * @throws ApiError 400
 */
export const createNoQueryReader = (ajv: Ajv) => {
  const read = createQueryReader(ajv, Type.Object({}, { additionalProperties: false }))
  return (query: RawQuery, url: string) => {
    if (!url.includes('?')) return
    const { violations } = read(query, url)
    if (violations.length > 0) throw invalidQuery(violations)
  }
}
