/** Validates query strings against the parameters of an operation. */
import { type TObject, Type } from '@sinclair/typebox'
import type { Ajv } from 'ajv'
import type { FastifyRequest } from 'fastify'
import { isObject } from '../../../lib/is-object.ts'
import { MAX_VIOLATIONS, type Violation } from '../../../schemas/error.ts'
import { apiError, invalidQuery } from '../../errors/index.ts'
import { deduplicate, toViolations } from '../../errors/violations.ts'
import { compileSchema } from '../../validation/formats.ts'
import { createViolation, type QueryValues, readValue } from './query-values.ts'

export interface ValidatedQuery {
  values: QueryValues
  /** The names of invalid parameters. */
  invalid: ReadonlySet<string>
  /** Further checks add theirs. */
  violations: Violation[]
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

/** Names the parameter in the violations of the values of a list: `status`, not `status.0`. */
const nameParameters = (violations: readonly Violation[]): Violation[] =>
  deduplicate(violations.map((each) => ({ ...each, field: each.field.split('.', 1)[0] ?? '' })))

/** Creates a function that validates the query strings of one operation. */
export function createQueryReader(ajv: Ajv, schema: TObject) {
  const validate = compileSchema(ajv, schema)
  const parameters = new Map(Object.entries(schema.properties))
  const known = parameters.size === 0 ? 'there are none' : `there are ${[...parameters.keys()].join(', ')}`

  return ({ query, originalUrl }: FastifyRequest): ValidatedQuery => {
    checkEncoding(originalUrl)
    const violations: Violation[] = []
    const values: Record<string, QueryValues[string]> = {}
    for (const [name, sent] of Object.entries(isObject(query) ? query : {})) {
      if (violations.length >= MAX_VIOLATIONS) throw invalidQuery(violations)
      const parameter = parameters.get(name)
      if (!parameter) {
        violations.push(createViolation(name, `is not a known parameter; ${known}`, 'UNKNOWN_PARAMETER'))
      } else if (typeof sent !== 'string') {
        violations.push(createViolation(name, 'must not be repeated', 'CONFLICTING_PARAMETERS'))
      } else {
        const value = readValue(parameter, name, sent, violations)
        if (value !== undefined) values[name] = value
      }
    }
    if (!validate(values)) violations.push(...nameParameters(toViolations(validate.errors ?? [])))
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
