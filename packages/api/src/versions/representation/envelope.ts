/** What both versions share: the envelope of a response with its schema, `meta`, and the included relations. */
import { type TObject, type TProperties, type TSchema, Type } from '@sinclair/typebox'
import { ErrorEnvelope, Meta, Pagination } from '../../results/envelope.ts'
import type { Entity, Shape } from '../../results/result.ts'
import { OrNull } from '../../schemas/types.ts'
import type { Representation } from './types.ts'

/** Returns the title of a resource's schema. */
const getTitle = ({ members, relations }: Shape) => `${members.title}${relations ? 'WithRelations' : ''}`

/** Removes a default, which applies to requests only: the serializer would add it for a member that `fields` omits. */
const withoutDefault = ({ default: _, ...schema }: TSchema): TSchema => schema

/** Returns the schema of a resource's members. If `fields` may select them, only the id is required. */
export function buildMembers({ members, selectable }: Shape): TObject {
  const { properties, title = '', description = '' } = members
  const written = Object.entries(properties).map(([name, schema]) => {
    const member = withoutDefault(schema)
    return [name, selectable && name !== 'id' ? Type.Optional(member) : member]
  })
  return Type.Object(Object.fromEntries(written), { title, description })
}

/** Returns the schema of a to-one relation. The description of a named schema cannot vary between its uses. */
const buildOne = (schema: TSchema, description: string): TSchema => ({
  ...OrNull(schema),
  'x-documented': { anyOf: [schema, Type.Null()], description },
})

/** Returns the schemas of the relations. Each is present only if it was included: an array, one resource, or null. */
export const buildRelations = (shape: Shape, buildResource: (shape: Shape) => TSchema): TProperties =>
  Object.fromEntries(
    Object.entries(shape.relations ?? {}).map(([name, { shape: related, many }]) => {
      const schema = buildResource(related)
      const description = `Present only with \`include=${name}\``
      return [
        name,
        Type.Optional(
          many ? Type.Array(schema, { maxItems: 100, description }) : buildOne(schema, description),
        ),
      ]
    }),
  )

/**
 * Documents a resource that `fields` may narrow as the whole resource, with its relations as optional members: generated
 * clients would otherwise have to check each member of each resource.
 * @param written the schema of the serializer, in which `fields` makes members optional
 * @param whole the schema of the whole resource
 */
export const documentWhole = (
  shape: Shape,
  { written, whole, relations }: { written: TObject; whole: TSchema; relations: TProperties },
): TSchema => ({
  ...written,
  'x-documented': shape.relations
    ? {
        title: getTitle(shape),
        description: `${whole.description}, with the resources that \`include\` adds`,
        allOf: [whole, Type.Object(relations, { description: 'The included resources' })],
      }
    : whole,
})

/** Adds the included relations to an object by name, each resource of them written by `write`. */
export function writeRelations(
  target: Record<string, unknown>,
  relations: NonNullable<Entity['relations']>,
  write: (entity: Entity) => unknown,
): Record<string, unknown> {
  for (const [name, related] of Object.entries(relations)) {
    target[name] = Array.isArray(related) ? related.map(write) : related && write(related)
  }
  return target
}

/**
 * Creates the envelope that both versions have, with its schemas.
 * @param list the field of an error that holds the violations
 */
export const createEnvelope = (
  writeResource: (entity: Entity) => Record<string, unknown>,
  buildResource: (shape: Shape) => TSchema,
  list: 'details' | 'errors',
): Pick<Representation, 'members' | 'resource' | 'one' | 'many' | 'error'> & {
  schemas: Omit<Representation['schemas'], 'body'>
} => ({
  members: ({ members }) => members,
  resource: writeResource,
  one: (entity, values) => ({
    data: writeResource(entity),
    meta: { timestamp: new Date().toISOString(), ...values },
  }),
  many: (entities, pagination, values) => ({
    data: entities.map(writeResource),
    pagination,
    meta: { timestamp: new Date().toISOString(), ...values },
  }),
  error: ({ violations, ...error }) => ({
    error: violations.length === 0 ? error : { ...error, [list]: violations },
  }),
  schemas: {
    one: (shape) =>
      Type.Object(
        { data: buildResource(shape), meta: Meta },
        { title: `${getTitle(shape)}Reply`, description: 'One resource' },
      ),
    many: (shape) =>
      Type.Object(
        {
          data: Type.Array(buildResource(shape), { maxItems: 100, description: 'The resources of the page' }),
          pagination: Pagination,
          meta: Meta,
        },
        { title: `${shape.members.title}Page`, description: 'A page of resources' },
      ),
    fields: (members) => members,
    error: ErrorEnvelope(list),
  },
})
