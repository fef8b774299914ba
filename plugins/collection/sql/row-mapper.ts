/** Maps rows to resources of a response. */
import type { TObject } from '@sinclair/typebox'
import type { Entity } from '../../versioning/representation/types.ts'
import type { ResourceDefinition, Row } from '../definition.ts'
import type { RowMapper } from '../resource.ts'

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

/** Returns the names of the fields that are timestamps. */
export const getTimestamps = ({ properties }: TObject): ReadonlySet<string> =>
  new Set(Object.keys(properties).filter((name) => properties[name]?.format === 'date-time'))

export function createRowMapper({
  name: type,
  schemas,
  computed,
}: Pick<ResourceDefinition, 'name' | 'schemas' | 'computed'>): RowMapper {
  const allNames = Object.keys(schemas.read.properties)
  const timestamps = getTimestamps(schemas.read)
  return (row, actor, names = allNames, relations) => {
    const values: Row = computed ? { ...row, ...computed(row, actor) } : row
    const members: Entity['members'] = { id: row.id }
    for (const name of names) {
      const value = values[name]
      members[name] = typeof value === 'string' && timestamps.has(name) ? toTimestamp(value) : value
    }
    return { type, members, relations }
  }
}
