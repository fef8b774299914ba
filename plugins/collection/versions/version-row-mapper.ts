/** Maps rows to resources of a version whose fields differ. */
import type { Entity } from '../../versioning/representation/types.ts'
import type { ResourceDefinition, Row } from '../definition.ts'
import { generateMapper, getTimestamps, type RowMapper, toTimestamp } from '../sql/row-mapper.ts'
import type { FieldNames } from './field-names.ts'
import type { VersionFields } from './version-fields.ts'

export function createVersionRowMapper(
  { name: type, schemas, computed }: Pick<ResourceDefinition, 'name' | 'schemas' | 'computed'>,
  names: FieldNames,
  { add = {} }: VersionFields,
): RowMapper {
  const timestamps = getTimestamps(schemas.read)
  const fields = Object.keys(schemas.read.properties)
  const visible = fields.filter((name) => !names.isHidden(name))
  const mapVisible = generateMapper(
    visible.map((column) => ({ name: names.toPublic(column), column })),
    timestamps,
  )
  // The values of added fields follow from the fields of the definition, hidden ones included.
  const mapWhole = generateMapper(
    fields.map((column) => ({ name: column, column })),
    timestamps,
  )
  const added = Object.entries(add)

  return (row, actor, selected, relations) => {
    const values: Row = computed ? { ...row, ...computed(row, actor) } : row
    const members: Entity['members'] = selected ? { id: row.id } : mapVisible(values)
    for (const name of selected ?? []) {
      const value = values[name]
      members[names.toPublic(name)] =
        typeof value === 'string' && timestamps.has(name) ? toTimestamp(value) : value
    }
    const wanted = selected ? added.filter(([name]) => selected.includes(name)) : added
    if (wanted.length > 0) {
      const whole = mapWhole(values)
      for (const [name, { value }] of wanted) members[name] = value(whole)
    }
    return { type, members, relations }
  }
}
