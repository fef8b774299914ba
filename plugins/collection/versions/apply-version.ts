/** Derives a resource as one version of the API has it, from what its definition says about that version. */
import type { TObject, TSchema } from '@sinclair/typebox'
import { isObject } from '../../../lib/is-object.ts'
import type { Access, Rule } from '../../access/index.ts'
import type { Resource } from '../compile.ts'
import type { ResolvedResource } from '../resolve.ts'
import { createFieldNames, type FieldNames } from './field-names.ts'
import type { PublishedResource } from './published-resource.ts'
import type { VersionFields } from './version-fields.ts'
import { createVersionRowMapper } from './version-row-mapper.ts'

/** A resource in one version. If nothing differs there, all parts are those of the resource itself. */
export interface VersionedResource extends PublishedResource {
  /** Its row mapper writes the names of the version. */
  resource: Resource
}

/** Returns a schema with the names of the version, also in descriptions and examples. */
function renameSchema(schema: TObject, names: FieldNames): TObject {
  const translate = (property: TSchema): TSchema =>
    property.description === undefined
      ? property
      : { ...property, description: names.translateDescription(property.description) }
  const properties = Object.entries<TSchema>(schema.properties).map(
    ([name, property]) => [name, translate(property)] as const,
  )
  const examples: unknown[] | undefined = schema.examples
  return {
    ...schema,
    properties: names.toPublicFields(Object.fromEntries(properties)),
    ...(schema.required && { required: names.listPublic(schema.required) }),
    ...(examples && {
      examples: examples.map((example) => (isObject(example) ? names.toPublicFields(example) : example)),
    }),
  }
}

const addFields = (schema: TObject, { add = {} }: VersionFields): TObject => ({
  ...schema,
  properties: {
    ...schema.properties,
    ...Object.fromEntries(Object.entries(add).map(([name, { schema: property }]) => [name, property])),
  },
  required: [...(schema.required ?? []), ...Object.keys(add)],
})

const renameRule = (rule: Rule, names: FieldNames): Rule =>
  typeof rule === 'boolean'
    ? rule
    : rule.map((condition) =>
        Object.fromEntries(Object.entries(condition).map(([name, value]) => [names.toPublic(name), value])),
      )

/** Returns access rules with the names of the version, which only their description uses. */
const renameAccess = (access: Access, names: FieldNames): Access =>
  Object.fromEntries(
    Object.entries(access).map(([verb, rules]) => [
      verb,
      Object.fromEntries(Object.entries(rules).map(([role, rule]) => [role, renameRule(rule, names)])),
    ]),
  )

function publish(resource: ResolvedResource, names: FieldNames, fields: VersionFields): ResolvedResource {
  const { schemas, filters, ranges = [], sorts, search, immutable = [], kept = [], access, check } = resource
  return {
    ...resource,
    schemas: {
      read: addFields(renameSchema(schemas.read, names), fields),
      create: renameSchema(schemas.create, names),
      change: renameSchema(schemas.change, names),
    },
    filters: names.listPublic(filters),
    ranges: names.listPublic(ranges),
    sorts: names.toPublicFields(sorts),
    search: names.listPublic(search),
    immutable: names.listPublic(immutable),
    kept: names.listPublic(kept),
    access: renameAccess(access, names),
    ...(check && {
      check: (body, mode) => check(names.toInternalFields(body), mode).map(names.translateViolation),
    }),
  }
}

/** Returns a resource in one version, without regard to its relations. */
function applyOwnFields(resource: Resource, version: number): VersionedResource {
  const fields = resource.versions?.[version]
  if (!fields) return { resource, published: resource, names: undefined }
  const names = createFieldNames(resource.schemas, fields)
  return {
    resource: { ...resource, toEntity: createVersionRowMapper(resource, names, fields) },
    published: publish(resource, names, fields),
    names,
  }
}

/** Returns a resource in one version. An included resource has no relations, so theirs stay as they are. */
export function applyVersion(resource: Resource, version: number): VersionedResource {
  const own = applyOwnFields(resource, version)
  const related = Object.entries(resource.relations).map(
    ([name, relation]) => [name, relation, applyOwnFields(relation.to, version)] as const,
  )
  if (!own.names && related.every(([, , { names }]) => !names)) return own
  const mapRelations = <T>(toTarget: (to: VersionedResource) => T) =>
    Object.fromEntries(related.map(([name, relation, to]) => [name, { ...relation, to: toTarget(to) }]))
  return {
    resource: { ...own.resource, relations: mapRelations((to) => to.resource) },
    published: { ...own.published, relations: mapRelations((to) => to.published) },
    names: own.names,
  }
}
