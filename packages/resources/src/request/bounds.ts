/** Reads the limits of a list: `price_amount_min`, `price_amount_max`, `created_after`. */

import type { Violation } from '@resource-api/api/errors'
import { createViolation } from '@resource-api/api/validation'
import type { Bound, FilterValue } from '../definition/query.ts'
import type { Resource } from '../definition/resource.ts'
import { listRangeParameters } from './parameters.ts'

export interface BoundValues {
  [parameter: string]: FilterValue | readonly FilterValue[] | undefined
}

/**
 * Returns the instant of a date (at midnight UTC) or of an RFC 3339 time, in UTC with microseconds as PostgreSQL stores
 * it. Digits beyond microseconds are rounded: up for `>=` and `<`, down for `<=`, so that the same rows are selected as
 * without rounding.
 * @param text a valid date or time
 * @returns undefined for an instant outside of the years 0001 to 9999
 */
export function toInstant(text: string, rounding: 'up' | 'down'): string | undefined {
  const fraction = /\.(\d+)/.exec(text)?.[1] ?? ''
  const isRoundedUp = rounding === 'up' && /[1-9]/.test(fraction.slice(6))
  const micros = Number(fraction.slice(0, 6).padEnd(6, '0')) + (isRoundedUp ? 1 : 0)
  const startOfSecond = Date.parse(text.replace(/\.\d+/, '').toUpperCase())
  const second = new Date(startOfSecond + Math.floor(micros / 1_000_000) * 1000).toISOString()
  // Years outside of 0000 to 9999 have a sign and six digits.
  if (second.length > 24 || second.startsWith('0000')) return undefined
  return `${second.slice(0, 19)}.${String(micros % 1_000_000).padStart(6, '0')}Z`
}

export function createReadBounds(resource: Resource) {
  const { properties } = resource.schemas.read
  const ranges = listRangeParameters(resource)

  return (values: BoundValues, violations: Violation[]): Bound[] => {
    const readBound = (parameter: string, field: string, operator: Bound['operator']): Bound | undefined => {
      const sent = values[parameter]
      if (sent === undefined || typeof sent === 'object') return undefined
      const format: unknown = properties[field]?.format
      const isTime = format === 'date' || format === 'date-time'
      if (typeof sent !== 'string' || !isTime) return { field, operator, value: sent }
      const instant = toInstant(sent, operator === '<=' ? 'down' : 'up')
      if (instant !== undefined) return { field, operator, value: format === 'date' ? sent : instant }
      const message = 'must be in the years 0001 to 9999 (UTC)'
      violations.push(createViolation(parameter, message, 'INVALID_FORMAT'))
      return undefined
    }
    // Decimals of one field have the same number of decimals.
    const toComparable = ({ field, value }: Bound) =>
      typeof value === 'string' && properties[field]?.format === 'decimal'
        ? BigInt(value.replace('.', ''))
        : value
    return ranges.flatMap(({ field, lower, upper, isHalfOpen }) => {
      const from = readBound(lower, field, '>=')
      const to = readBound(upper, field, isHalfOpen ? '<' : '<=')
      if (from && to && toComparable(from) > toComparable(to)) {
        const message = `must not be ${isHalfOpen ? 'later' : 'greater'} than ${upper}`
        violations.push(createViolation(lower, message, 'CONFLICTING_PARAMETERS'))
      }
      return [from, to].filter((bound) => bound !== undefined)
    })
  }
}
