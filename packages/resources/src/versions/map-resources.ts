/** Makes a version in which resources of some collections have other fields: each by a schema and two functions. */
import type { Entity, Shape } from '@resource-api/api/results'
import { createViolation, type Fields, getDecode, withDecode } from '@resource-api/api/validation'
import type { Representation } from '@resource-api/api/versions'
import { type TObject, type TSchema, Type } from '@sinclair/typebox'
import { buildBody, buildRowSchema } from '../request/body-schema.ts'

/** The resources of one collection in a version. Arguments need not have all fields: the functions map those that are there. */
export interface ResourceMapping {
  schemas: { read: TObject; create: TObject; change: TObject }
  /**
   * The fields of the collection of which a field of the version is made, if it has another name: `title: ['name']`. Filters,
   * ranges and sorts go by the first one.
   */
  sources?: Readonly<Record<string, readonly string[]>>
  /** The writable fields of the collection that the version does not have. PUT keeps them. */
  lacking?: readonly string[]
  /** @param members the fields that the response has, named as in the collection */
  toVersion(members: Fields): Fields
  /** @param fields those of a body, valid by the schema of the version */
  toCollection(fields: Fields): Fields
}

const mapValues = <T, U>(record: Readonly<Record<string, T>>, map: (value: T) => U): Record<string, U> =>
  Object.fromEntries(Object.entries(record).map(([name, value]) => [name, map(value)]))

/** An absent field becomes one that is undefined if it is renamed: PATCH would change it. */
const withoutUndefined = (fields: Fields): Fields =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined))

/**
 * @param base the envelope, with the number of the version
 * @param mappings by the names of the collections
 */
export function mapResources(
  base: Representation,
  mappings: Readonly<Record<string, ResourceMapping>>,
): Representation {
  const mapMembers = ({ type, members, shown }: Entity): Entity['members'] => {
    const mapping = mappings[type]
    if (!mapping) return members
    const mapped = Object.entries(withoutUndefined(mapping.toVersion(members)))
    const kept = shown ? mapped.filter(([name]) => shown.includes(name)) : mapped
    return { ...Object.fromEntries(kept), id: members.id }
  }
  const mapEntity = (entity: Entity): Entity => ({
    type: entity.type,
    members: mapMembers(entity),
    relations:
      entity.relations &&
      mapValues(entity.relations, (related) =>
        Array.isArray(related) ? related.map(mapEntity) : related && mapEntity(related),
      ),
  })
  const mapShape = (shape: Shape): Shape => ({
    ...shape,
    members: mappings[shape.type]?.schemas.read ?? shape.members,
    ...(shape.relations && {
      relations: mapValues(shape.relations, (related) => ({ ...related, shape: mapShape(related.shape) })),
    }),
  })
  /** Returns the schema of the fields of a body, whose values are those of the collection. */
  const withMapping = (body: TSchema, members: TSchema, { toCollection }: ResourceMapping): TSchema => {
    const check = getDecode(members)
    const refused: readonly string[] = members['x-read-only'] ?? []
    return withDecode({ ...body, title: members.title ?? '' }, (fields: Fields, violations) => {
      const mapped = withoutUndefined(toCollection(fields))
      for (const name of refused.filter((each) => each in mapped))
        violations.push(createViolation(name, 'is read-only', 'READ_ONLY'))
      return check ? check(mapped, violations) : mapped
    })
  }
  return {
    ...base,
    members: mapMembers,
    resource: (entity) => base.resource(mapEntity(entity)),
    one: (entity, meta) => base.one(mapEntity(entity), meta),
    many: (entities, pagination, meta) => base.many(entities.map(mapEntity), pagination, meta),
    mappings: mapValues(mappings, ({ schemas, sources = {}, lacking = [] }) => ({
      ...{ schemas, lacking },
      sources: Object.fromEntries(
        Object.keys(schemas.read.properties).map((name) => [name, sources[name] ?? [name]]),
      ),
    })),
    schemas: {
      ...base.schemas,
      one: (shape) => base.schemas.one(mapShape(shape)),
      many: (shape) => base.schemas.many(mapShape(shape)),
      fields(members, type, mode) {
        const mapping = mappings[type]
        if (!mapping) return members
        const body = buildBody({ singular: members.title ?? '', schemas: mapping.schemas }, mode)
        return withMapping(body, members, mapping)
      },
      row(members, type, mode) {
        const mapping = mappings[type]
        if (!mapping) return members
        const { read, create, change } = mapping.schemas
        // The row of a resource that exists may repeat what only a creation sets.
        const repeated = Type.Object({ ...create.properties, ...change.properties })
        const input = mode === 'create' ? create : repeated
        const row = buildRowSchema({ schemas: { read, create: input, change: input } }, mode)
        return withMapping(row, members, mapping)
      },
    },
  }
}
