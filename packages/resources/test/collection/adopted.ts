/** Resources of an adopter for tests: a name, a table and the fields of all schemas. */
import { type TProperties, Type } from '@sinclair/typebox'
import { verbs } from '../../../api/src/rules/rules.ts'
import { common, Id } from '../../../api/src/schemas/types.ts'
import type { ResourceDefinition } from '../../src/definition/definition.ts'

interface Kind {
  name: string
  singular: string
  table: ResourceDefinition['table']
  /** The fields that a body may have. */
  fields: TProperties
  /** The fields that only responses have. */
  readOnly?: TProperties
}

/** Defines a resource without filters, sorts and relations, unless the rest of the definition has some. */
export const define = (
  { name, singular, table, fields, readOnly = {} }: Kind,
  rest: Partial<ResourceDefinition>,
): ResourceDefinition => ({
  ...{ name, singular, plural: `All${singular}`, description: `The ${name}`, table },
  schemas: {
    read: Type.Object({ id: Id(), ...readOnly, ...fields, ...common }, { title: singular }),
    create: Type.Object(fields, { title: `${singular}Create` }),
    change: Type.Object(fields, { title: `${singular}Change` }),
  },
  ...{ filters: [], sorts: {}, search: [], relations: {}, access: {}, operations: {} },
  verbs: verbs.filter((verb) => rest.access?.[verb]),
  ...rest,
})
