/** Maps rows to the fields of their resource. */
import type { Actor } from '../../access/index.ts'
import type { ResourceDefinition, Row } from '../definition.ts'

type Fields = { id: string } & Record<string, unknown>

/** Returns the id and the named fields of a row, or all fields, as the caller sees them. */
export type RowMapper = (row: Row, actor: Actor, names?: readonly string[]) => Fields

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

export function createRowMapper({
  schemas,
  computed,
}: Pick<ResourceDefinition, 'schemas' | 'computed'>): RowMapper {
  const { properties } = schemas.read
  const allNames = Object.keys(properties)
  const timestamps = new Set(allNames.filter((name) => properties[name]?.format === 'date-time'))
  return (row, actor, names = allNames) => {
    const values = computed ? { ...row, ...computed(row, actor) } : row
    const fields: Fields = { id: row.id }
    for (const name of names) {
      const value = values[name]
      fields[name] = typeof value === 'string' && timestamps.has(name) ? toTimestamp(value) : value
    }
    return fields
  }
}
