/** From a row to the members of its resource, by code made once for each schema. */
import type { TObject } from '@sinclair/typebox'
import type { Row } from '../definition.ts'

export type Members = { id: string } & Record<string, unknown>

export interface Mapper {
  /** All members. */
  all(row: Row): Members
  /** Those that are named, and the id. */
  some(row: Row, names: readonly string[]): Members
}

const LONG_MOMENT = '2026-11-21 09:30:00.123456+00'.length
const ZONE = '+00'.length

/** PostgreSQL's text of a moment in UTC, as RFC 3339 with milliseconds. */
export function toTimestamp(moment: string): string {
  const day = moment.slice(0, 10)
  // Nearly all have six digits; PostgreSQL leaves out zeros at the end, and with all six the point.
  if (moment.length === LONG_MOMENT) return `${day}T${moment.slice(11, 23)}Z`
  const fraction = moment.slice(20, -ZONE).slice(0, 3).padEnd(3, '0')
  return `${day}T${moment.slice(11, 19)}.${fraction}Z`
}

/** @param toMoment gives a moment, as the database wrote it, its form on the wire */
export function createMapper(schema: TObject, toMoment: (text: string) => string): Mapper {
  const moments = new Set(
    Object.entries(schema.properties)
      .filter(([, member]) => member.format === 'date-time')
      .map(([name]) => name),
  )
  const onWire = (name: string, value: unknown) =>
    moments.has(name) && typeof value === 'string' ? toMoment(value) : value
  // As one literal: an engine gives such an object its shape at once, and one that grows by names a new one for each.
  const members = Object.keys(schema.properties).map((name) => {
    const [key, value] = [JSON.stringify(name), `row[${JSON.stringify(name)}]`]
    return `${key}: ${moments.has(name) ? `typeof ${value} === 'string' ? toMoment(${value}) : ${value}` : value}`
  })
  const make = new Function('toMoment', `return (row) => ({ id: row.id, ${members.join(', ')} })`)
  return {
    all: make(toMoment),
    some(row, names) {
      const made: Members = { id: row.id }
      for (const name of names) made[name] = onWire(name, row[name])
      return made
    },
  }
}
