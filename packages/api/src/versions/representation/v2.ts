/** v2, the typed envelope: a resource is an object of `id`, `type`, `attributes` and `relationships`. */
import { type TObject, type TProperties, type TSchema, Type } from '@sinclair/typebox'
import type { Entity, Shape } from '../../results/result.ts'
import { Id } from '../../schemas/types.ts'
import { withEnvelope } from '../../validation/schema-functions.ts'
import { buildMembers, buildRelations, createEnvelope, documentWhole, writeRelations } from './envelope.ts'
import { createTypedEnvelope } from './typed.ts'
import type { Representation } from './types.ts'

const writeResource = ({ type, members, relations }: Entity): Record<string, unknown> => ({
  id: typeof members.id === 'number' ? String(members.id) : members.id,
  type,
  attributes: members,
  ...(relations ? { relationships: writeRelations({}, relations, writeResource) } : {}),
})

const withoutId = ({ properties: { id: _, ...attributes }, title }: TObject): TObject =>
  Type.Object(attributes, { title: `${title}Attributes`, description: 'The fields of the resource' })

/** Returns the schema of an id as a text, whatever it is in the collection. */
function toTextId({ format, type, description, examples, ...rest }: TSchema = Id()): TSchema {
  if (format === 'uuid') return Id()
  const shown = { ...(description && { description }), ...(examples && { examples: examples.map(String) }) }
  return Type.String(type === 'string' ? { ...rest, ...shown } : shown)
}

function buildTyped(shape: Shape, relationships: TProperties): TObject {
  const { title = '', description = '' } = shape.members
  const properties = {
    ...('id' in shape.members.properties && { id: toTextId(shape.members.properties.id) }),
    type: Type.Literal(shape.type, { description: 'The name of the collection' }),
    attributes: buildMembers({ ...shape, members: withoutId(shape.members) }),
    ...relationships,
  }
  return Type.Object(properties, { title, description })
}

function buildResource(shape: Shape): TSchema {
  const whole = buildTyped({ ...shape, selectable: false }, {})
  if (!shape.selectable) return whole
  const { title } = shape.members
  const related = buildRelations(shape, buildResource)
  const relations: TProperties = shape.relations
    ? {
        relationships: Type.Optional(
          Type.Object(related, { title: `${title}Relationships`, description: 'The included resources' }),
        ),
      }
    : {}
  return documentWhole(shape, { written: buildTyped(shape, relations), whole, relations })
}

/** Returns the schema of the attributes of a body whose id stands beside them. */
const withoutOwnId = ({
  properties: { id: _, ...properties },
  required = [],
  ...rest
}: TSchema): TSchema => ({
  ...rest,
  properties,
  required: required.filter((name: string) => name !== 'id'),
  title: `${rest.title}Attributes`,
})

const { schemas, ...envelope } = createEnvelope(writeResource, buildResource, 'errors')

export const v2: Representation = {
  version: 2,
  about:
    'A resource is `{"id", "type", "attributes"}` under `data`, with included resources in `relationships`. A request body may have the same form, or be flat as in v1. The details of an error are in `error.errors`.\n\n' +
    'This is not JSON:API (jsonapi.org), although the envelope and `application/vnd.api+json` resemble it. The members of ' +
    '`relationships` are the included resources themselves, without `data`, `links` or a top-level `included`. An error is ' +
    'one object `error` with a `code`, not an array of `errors` with pointers. Parameters are `limit`, `cursor`, `page` and ' +
    '`fields=name`, not `page[size]` or `fields[users]`. Use a client that is generated from this document, not a JSON:API library.\n\n',
  ...envelope,
  schemas: {
    ...schemas,
    body: (members, type, addressed, id) => {
      // That of a resource to be created stands beside its attributes.
      const ownId: TSchema | undefined = addressed ? undefined : members.properties?.id
      const pathId = { ...toTextId(id), description: 'The id in the path; may be absent' }
      const data = Type.Object(
        {
          type: Type.Literal(type, { description: 'The name of the collection' }),
          ...(addressed ? { id: Type.Optional({ ...pathId, 'x-in-examples': false }) } : {}),
          ...(ownId && { id: toTextId(ownId) }),
          attributes: ownId ? withoutOwnId(members) : members,
        },
        { additionalProperties: false, description: 'The resource' },
      )
      const title = `${members.title}Document`
      const document = Type.Object(
        { data },
        { title, description: 'A typed body', additionalProperties: false },
      )
      const union = Type.Union([document, members], {
        title: `${members.title}Body`,
        description: 'A typed or a flat body',
      })
      return Type.Unsafe(
        withEnvelope(
          union,
          createTypedEnvelope({ fields: members, document }, type, { isNew: !addressed, ownId }),
        ),
      )
    },
  },
}
