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
