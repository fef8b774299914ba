/**
 * Derives a resource as one version of the API has it. What the version renames, hides or adds is applied in four places:
 * `published` has its schemas, which bodies and query strings are validated by; `names` translates their fields, and the
 * errors; `toEntity` writes its fields.
 */
import type { TObject, TSchema } from '@sinclair/typebox'
import { isObject } from '../../lib/is-object.ts'
import type { Access, Rule } from '../access/index.ts'
import type { Entity } from '../versioning/representation/types.ts'
import type { Resource } from './resource.ts'
import { createVersionNames, type VersionFields, type VersionNames } from './version-names.ts'

/** Returns a schema with the names of the version, also in backticks in descriptions, and in examples. */
function renameSchema(schema: TObject, names: VersionNames): TObject {
  const renameText = (text: string) =>
    text.replace(/`([a-z0-9_]+)`/g, (_, name: string) => `\`${names.toPublic(name)}\``)
  const rename = (property: TSchema): TSchema =>
    property.description === undefined
      ? property
      : { ...property, description: renameText(property.description) }
  const properties = Object.entries(schema.properties).map(([name, property]) => [name, rename(property)])
  const examples: unknown[] | undefined = schema.examples
  return {
    ...schema,
    properties: names.toPublicFields<TSchema>(Object.fromEntries(properties)),
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

/** Returns access rules with the names of the version, which only their description uses. */
function renameAccess(access: Access, { toPublic }: VersionNames): Access {
  const renameKeys = (condition: object) =>
    Object.fromEntries(Object.entries(condition).map(([name, value]) => [toPublic(name), value]))
  const renameRule = (rule: Rule): Rule => (typeof rule === 'boolean' ? rule : rule.map(renameKeys))
  return Object.fromEntries(
    Object.entries(access).map(([verb, rules]) => [
      verb,
      Object.fromEntries(Object.entries(rules).map(([role, rule]) => [role, renameRule(rule)])),
    ]),
  )
}

function publish(resource: Resource, names: VersionNames, fields: VersionFields): Resource {
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

/** Creates the function that maps rows to resources with the fields of the version. */
function createToEntity({ schemas, toEntity }: Resource, names: VersionNames, { add = {} }: VersionFields) {
  const visible = Object.keys(schemas.read.properties).filter((name) => !names.isHidden(name))
  const all = [...visible, ...Object.keys(add)]
  const map: Resource['toEntity'] = (row, actor, selected = all, relations) => {
    // The values of added fields follow from the fields of the definition, hidden ones included.
    const { type, members: fields } = toEntity(row, actor)
    const members: Entity['members'] = { id: row.id }
    for (const name of selected) {
      const added = add[name]
      members[names.toPublic(name)] = added ? added.value(fields) : fields[name]
    }
    return { type, members, relations }
  }
  return map
}

/** Returns a resource in one version, without regard to its relations. */
function applyOwnFields(resource: Resource, version: number): Resource {
  const fields = resource.versions?.[version]
  if (!fields) return resource
  const names = createVersionNames(resource.schemas, fields)
  return {
    ...resource,
    toEntity: createToEntity(resource, names, fields),
    published: publish(resource, names, fields),
    names,
  }
}

/** Returns a resource in one version. An included resource has no relations, so theirs stay as they are. */
export function applyVersion(resource: Resource, version: number): Resource {
  const own = applyOwnFields(resource, version)
  const relations = Object.fromEntries(
    Object.entries(resource.relations).map(([name, relation]) => [
      name,
      { ...relation, to: applyOwnFields(relation.to, version) },
    ]),
  )
  const hasNames = own.names ?? Object.values(relations).find(({ to }) => to.names)
  if (!hasNames) return resource
  const publishedRelations = Object.fromEntries(
    Object.entries(relations).map(([name, relation]) => [name, { ...relation, to: relation.to.published }]),
  )
  return { ...own, relations, published: { ...own.published, relations: publishedRelations } }
}
