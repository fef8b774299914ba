/** Validates query strings against the parameters of an operation. */
import { type TObject, type TSchema, Type } from '@sinclair/typebox'
import type { Ajv } from 'ajv'
import type { FastifyRequest } from 'fastify'
import { isObject } from '../../../lib/is-object.ts'
import { type FieldCode, MAX_VIOLATIONS, type Violation } from '../../../schemas/error.ts'
import { apiError, invalidQuery } from '../../errors/index.ts'
import { toViolations } from '../../errors/violations.ts'
import { compileSchema } from '../../validation/formats.ts'
import { hasLongMarkRun, LONG_MARK_RUN, MAX_UNITS_PER_CODE_POINT } from './text-limits.ts'

/** The values of valid parameters, whose schemas allow only strings and integers. */
export type QueryValues = Readonly<Record<string, string | number>>

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
  if (text.length > maxLength * MAX_UNITS_PER_CODE_POINT) {
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
function readValue(parameter: TSchema, name: string, value: string, violations: Violation[]) {
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
  const parameters = new Map(Object.entries(schema.properties))

  return ({ query, originalUrl }: FastifyRequest): ValidatedQuery => {
    checkEncoding(originalUrl)
    const violations: Violation[] = []
    const values: Record<string, string | number> = {}
    for (const [name, sent] of Object.entries(isObject(query) ? query : {})) {
      if (violations.length >= MAX_VIOLATIONS) throw invalidQuery(violations)
      const parameter = parameters.get(name)
      if (!parameter) {
        violations.push(createViolation(name, 'is not a known parameter', 'UNKNOWN_PARAMETER'))
      } else if (typeof sent !== 'string') {
        violations.push(createViolation(name, 'must not be repeated', 'CONFLICTING_PARAMETERS'))
      } else {
        const value = readValue(parameter, name, sent, violations)
        if (value !== undefined) values[name] = value
      }
    }
    if (!validate(values)) violations.push(...toViolations(validate.errors ?? []))
    const invalid = new Set(violations.map(({ field }) => field))
    for (const name of invalid) delete values[name]
    return { values, invalid, violations }
  }
}

/**
 * Creates a function that refuses all parameters, for operations without any.
 * @throws ApiError 400
 */
export const createQueryRefusal = (ajv: Ajv) => {
  const read = createQueryReader(ajv, Type.Object({}, { additionalProperties: false }))
  return (request: FastifyRequest) => {
    const { violations } = read(request)
    if (violations.length > 0) throw invalidQuery(violations)
  }
}
