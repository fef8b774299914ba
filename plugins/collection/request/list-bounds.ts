/** Reads the parameters that limit a field: `price_amount_min`, `price_amount_max`, `created_after`, `created_before`. */
import type { Violation } from '../../../schemas/error.ts'
import type { ResolvedResource } from '../resolve.ts'
import { createViolation, type QueryValue, type QueryValues } from './query-values.ts'
import { toInstant } from './times.ts'

/** The two parameters that limit a field. */
export interface RangeParameters {
  field: string
  lower: string
  upper: string
  /** Whether the upper limit itself is outside. */
  isHalfOpen: boolean
}

/** A limit of a field. */
export interface Bound {
  parameter: string
  field: string
  operator: '>=' | '<=' | '<'
  value: QueryValue
}

/** Returns the parameters that limit the fields of a resource: its ranges, and the times of creation and change. */
export const listRangeParameters = ({
  ranges = [],
  sorts,
}: Pick<ResolvedResource, 'ranges' | 'sorts'>): RangeParameters[] => [
  ...ranges.map((field) => ({ field, lower: `${field}_min`, upper: `${field}_max`, isHalfOpen: false })),
  ...['created', 'updated']
    .filter((verb) => verb === 'created' || 'updated_at' in sorts)
    .map((verb) => ({
      field: `${verb}_at`,
      lower: `${verb}_after`,
      upper: `${verb}_before`,
      isHalfOpen: true,
    })),
]

const isTime = (format: unknown) => format === 'date' || format === 'date-time'

/** Creates a function that reads the limits of a list. */
export function createBoundsReader(resource: ResolvedResource) {
  const { properties } = resource.schemas.read
  const ranges = listRangeParameters(resource)

  /** Returns a value that can be compared with others, or undefined after a violation. */
  const readBound = (
    parameter: string,
    field: string,
    operator: Bound['operator'],
    values: QueryValues,
    violations: Violation[],
  ): Bound | undefined => {
    const sent = values[parameter]
    if (sent === undefined || typeof sent === 'object') return undefined
    const format: unknown = properties[field]?.format
    if (typeof sent !== 'string' || !isTime(format)) return { parameter, field, operator, value: sent }
    const instant = toInstant(sent, operator === '<=' ? 'down' : 'up')
    if (instant === undefined) {
      const message = 'must be in the years 0001 to 9999 (UTC)'
      violations.push(createViolation(parameter, message, 'INVALID_FORMAT'))
      return undefined
    }
    return { parameter, field, operator, value: format === 'date' ? sent : instant }
  }

  return (values: QueryValues, violations: Violation[]): Bound[] =>
    ranges.flatMap(({ field, lower, upper, isHalfOpen }) => {
      const from = readBound(lower, field, '>=', values, violations)
      const to = readBound(upper, field, isHalfOpen ? '<' : '<=', values, violations)
      if (from && to && from.value > to.value) {
        const message = `must not be ${isHalfOpen ? 'later' : 'greater'} than ${upper}`
        violations.push(createViolation(lower, message, 'CONFLICTING_PARAMETERS'))
      }
      return [from, to].filter((bound) => bound !== undefined)
    })
}
