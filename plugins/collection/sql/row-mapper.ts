/** Maps rows to the fields of their resource, by a function that is generated once for each schema. */
import type { TObject } from '@sinclair/typebox'
import type { Row } from '../definition.ts'

type Fields = { id: string } & Record<string, unknown>

export interface RowMapper {
  /** Returns all fields of a row. */
  all(row: Row): Fields
  /** Returns the id and the named fields of a row. */
  some(row: Row, names: readonly string[]): Fields
}

const MICROSECOND_LENGTH = '2026-11-21 09:30:00.123456+00'.length
const ZONE_LENGTH = '+00'.length

/** Converts PostgreSQL's text of a timestamp in UTC to RFC 3339 with milliseconds. */
export function toTimestamp(text: string): string {
  const day = text.slice(0, 10)
  // PostgreSQL omits trailing zeros of the fraction, and the point if all six are zeros. Nearly all texts have six digits.
  if (text.length === MICROSECOND_LENGTH) return `${day}T${text.slice(11, 23)}Z`
  const fraction = text.slice(20, -ZONE_LENGTH).slice(0, 3).padEnd(3, '0')
  return `${day}T${text.slice(11, 19)}.${fraction}Z`
}

/** @param convert converts a timestamp from the text of the database to the text of a response */
export function createRowMapper(schema: TObject, convert: (text: string) => string): RowMapper {
  const timestamps = new Set(
    Object.entries(schema.properties)
      .filter(([, property]) => property.format === 'date-time')
      .map(([name]) => name),
  )
  const toValue = (name: string, value: unknown) =>
    timestamps.has(name) && typeof value === 'string' ? convert(value) : value
  // One object literal: V8 gives it its final hidden class, instead of a new one for each property that is added.
  const properties = Object.keys(schema.properties).map((name) => {
    const [key, value] = [JSON.stringify(name), `row[${JSON.stringify(name)}]`]
    return `${key}: ${timestamps.has(name) ? `typeof ${value} === 'string' ? convert(${value}) : ${value}` : value}`
  })
  const generate = new Function('convert', `return (row) => ({ id: row.id, ${properties.join(', ')} })`)
  return {
    all: generate(convert),
    some(row, names) {
      const fields: Fields = { id: row.id }
      for (const name of names) fields[name] = toValue(name, row[name])
      return fields
    },
  }
}
