/**
 * Derives a resource as one version of the API has it. What the version renames, hides or adds is applied in four places:
 * `published` has its schemas, which bodies and query strings are validated by; `names` translates their fields, and the
 * errors; `toEntity` writes its fields.
 */
import { OptionalKind, type TObject, type TSchema } from '@sinclair/typebox'
import { isObject } from '../../lib/is-object.ts'
import type { Violation } from '../../schemas/error.ts'
import type { Access, Rule } from '../access/rules.ts'
import { rewriteError } from '../errors/index.ts'
import type { Entity } from '../versioning/representation/types.ts'
import type { VersionFields } from './fields.ts'
import type { Resource, VersionNames } from './resource.ts'
import { createRowMapper } from './response/response-builder.ts'
import { getHidden, restrictRead } from './restrictions.ts'

const mapValues = <T, U>(record: Readonly<Record<string, T>>, change: (value: T) => U): Record<string, U> =>
  Object.fromEntries(Object.entries(record).map(([name, value]) => [name, change(value)]))

const renameKeys = <T>(
  record: Readonly<Record<string, T>>,
  rename: (name: string) => string,
): Record<string, T> =>
  Object.fromEntries(Object.entries(record).map(([name, value]) => [rename(name), value]))

/** Returns the names of all fields of a resource, those that can only be written included. */
export const listFields = (schemas: Readonly<Record<string, TObject>>): string[] => [
  ...new Set(Object.values(schemas).flatMap(({ properties }) => Object.keys(properties))),
]

/** Statuses of errors that concern the fields of the resource. Their messages may name fields. */
const FIELD_ERRORS: ReadonlySet<number> = new Set([403, 409, 422])

export function createVersionNames(
  schemas: Readonly<Record<'read' | 'create' | 'change', TObject>>,
  { rename = {}, hide = [] }: VersionFields,
): VersionNames {
  const isHidden = (name: string) => hide.includes(name)
  const publicNames = new Map(
    listFields(schemas).flatMap((name) => (isHidden(name) ? [] : [[name, rename[name] ?? name] as const])),
  )
  const internalNames = new Map([...publicNames].map(([internal, named]) => [named, internal]))
  const toPublic = (name: string) => publicNames.get(name) ?? name
  const toInternal = (name: string) => internalNames.get(name) ?? name

  /** Replaces the names of renamed fields in a message, but not in a quoted value of the client. */
  const translateMessage = (message: string) =>
    message.replace(/"[^"]*"|\w+/g, (word) => (Object.hasOwn(rename, word) ? toPublic(word) : word))

  /** Replaces the first segment of the path: the names inside a field are those of every version. */
  const translateViolation = ({ field, message, code }: Violation): Violation => ({
    field: field.replace(/^[^.]*/, toPublic),
    message: translateMessage(message),
    code,
  })

  return {
    isHidden,
    toPublic,
    toInternal,
    translateViolation,
    listPublic: (names) => names.filter((name) => !isHidden(name)).map(toPublic),
    toPublicFields(record) {
      const visible = Object.entries(record).filter(([name]) => !isHidden(name))
      return Object.fromEntries(visible.map(([name, value]) => [toPublic(name), value]))
    },
    toInternalFields: (record) => renameKeys(record, toInternal),
    translateError: (error) =>
      rewriteError(error, ({ status, message, violations }) =>
        FIELD_ERRORS.has(status)
          ? { message: translateMessage(message), violations: violations.map(translateViolation) }
          : { violations },
      ),
  }
}

/** Returns a schema with the names of the version, also in backticks in descriptions, and in examples. */
function renameSchema(schema: TObject, names: VersionNames): TObject {
  const renameText = (text: string) =>
    text.replace(/`([a-z0-9_]+)`/g, (_, name: string) => `\`${names.toPublic(name)}\``)
  const rename = (property: TSchema): TSchema =>
    property.description ? { ...property, description: renameText(property.description) } : property
  const examples: unknown[] | undefined = schema.examples
  return {
    ...schema,
    properties: names.toPublicFields(mapValues(schema.properties, rename)),
    ...(schema.required && { required: names.listPublic(schema.required) }),
    ...(examples && {
      examples: examples.map((example) => (isObject(example) ? names.toPublicFields(example) : example)),
    }),
  }
}

/** Returns access rules with the names of the version, which only their description uses. */
function renameAccess(access: Access, { toPublic }: VersionNames): Access {
  const renameRule = (rule: Rule): Rule =>
    typeof rule === 'boolean' ? rule : rule.map((condition) => renameKeys(condition, toPublic))
  return mapValues(access, (rules) => mapValues(rules, renameRule))
}

function publish(resource: Resource, names: VersionNames, { add = {} }: VersionFields): Resource {
  const { schemas, filters, ranges = [], sorts, search, immutable = [], kept = [], access, check } = resource
  const { negations = [], notImported = [], nullChecks = [], prefixes = [] } = resource
  const read = renameSchema(schemas.read, names)
  const added = restrictRead(
    mapValues(add, ({ schema }) => schema),
    resource,
  )
  return {
    ...resource,
    schemas: {
      read: {
        ...read,
        properties: { ...read.properties, ...added },
        required: [
          ...(read.required ?? []),
          ...Object.keys(added).filter((name) => !(OptionalKind in (added[name] ?? {}))),
        ],
      },
      create: renameSchema(schemas.create, names),
      change: renameSchema(schemas.change, names),
    },
    filters: names.listPublic(filters),
    negations: names.listPublic(negations),
    nullChecks: names.listPublic(nullChecks),
    prefixes: names.listPublic(prefixes),
    ranges: names.listPublic(ranges),
    sorts: names.toPublicFields(sorts),
    search: names.listPublic(search),
    immutable: names.listPublic(immutable),
    kept: names.listPublic(kept),
    notImported: names.listPublic(notImported),
    access: renameAccess(access, names),
    ...(check && {
      check: (body, mode) => check(names.toInternalFields(body), mode).map(names.translateViolation),
    }),
  }
}

/** Returns a resource in one version, without regard to its relations. */
function applyOwnFields(resource: Resource, version: number): Resource {
  const fields = resource.versions?.[version]
  if (!fields) return resource
  const { add = {} } = fields
  const names = createVersionNames(resource.schemas, fields)
  const visible = Object.keys(resource.schemas.read.properties).filter((name) => !names.isHidden(name))
  const all = [...visible, ...Object.keys(add)]
  // The values of added fields follow from the fields of the definition, hidden ones included.
  const toWhole = createRowMapper({ ...resource, restrictions: undefined })
  return {
    ...resource,
    published: publish(resource, names, fields),
    names,
    toEntity(row, actor, selected = all, relations) {
      const { type, members: values } = toWhole(row, actor)
      const hidden = getHidden(resource, actor)
      const members: Entity['members'] = { id: row.id }
      for (const name of selected) {
        if (hidden?.has(name)) continue
        members[names.toPublic(name)] = add[name] ? add[name].value(values) : values[name]
      }
      return { type, members, relations }
    },
  }
}

/** Returns a resource in one version. An included resource has no relations, so theirs stay as they are. */
export function applyVersion(resource: Resource, version: number): Resource {
  const own = applyOwnFields(resource, version)
  const relations = mapValues(resource.relations, (relation) => ({
    ...relation,
    to: applyOwnFields(relation.to, version),
  }))
  if (!own.names && !Object.values(relations).some(({ to }) => to.names)) return resource
  const published = mapValues(relations, (relation) => {
    const { to, filters = [] } = relation
    return { ...relation, to: to.published, filters: to.names?.listPublic(filters) ?? filters }
  })
  return { ...own, relations, published: { ...own.published, relations: published } }
}
