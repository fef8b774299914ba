/** The fields of a resource as a version names them: in parameters, in CSV and in errors. Where they are others, by its mapping. */
import type { Violation } from '@resource-api/api/errors'
import type { FieldMapping, FieldMappings } from '@resource-api/api/versions'
import type { TSchema } from '@sinclair/typebox'
import type { ListFilters } from '../definition/query.ts'
import type { Resource } from '../definition/resource.ts'
import { describeTaken } from '../sql/constraint-errors.ts'

export interface FieldNames {
  /** Returns the field of the version that stands for one of the collection; undefined if there is none. */
  toVersion(field: string): string | undefined
  /** Returns the field of the collection that a name of the version stands for. */
  toCollection(name: string): string
}

const SAME: FieldNames = { toVersion: (field) => field, toCollection: (name) => name }

/** A field of the collection is compared as the field of the version that is made of it alone, else of it and others. */
function createNames({ sources }: FieldMapping): FieldNames {
  const names = new Map<string, string>()
  const entries = Object.entries(sources)
  for (const isAlone of [true, false])
    for (const [name, [field, ...others]] of entries)
      if (field !== undefined && (others.length === 0) === isAlone && !names.has(field))
        names.set(field, name)
  return {
    toVersion: (field) => names.get(field),
    toCollection: (name) => sources[name]?.[0] ?? name,
  }
}

export function getFieldNames({ name }: Pick<Resource, 'name'>, mappings: FieldMappings): FieldNames {
  const mapping = mappings[name]
  return mapping ? createNames(mapping) : SAME
}

/** Returns a resource whose fields have the names of the version, for the schemas of its parameters. */
function renameFields(resource: Resource, mappings: FieldMappings): Resource {
  const mapping = mappings[resource.name]
  if (!mapping) return resource
  const { toVersion } = createNames(mapping)
  const known: Record<string, TSchema> = resource.schemas.read.properties
  const own: Record<string, TSchema> = mapping.schemas.read.properties
  const properties = Object.entries(mapping.sources).flatMap(([name, from]): [string, TSchema][] => {
    // Perhaps the role may not read one of them.
    if (!from.every((each) => each in known)) return []
    // The values of parameters are those of the collection.
    const [first = ''] = from
    const schema = toVersion(first) === name ? known[first] : own[name]
    return schema ? [[name, schema]] : []
  })
  const schemas = new Map(properties)
  const rename = (field: string): string[] => {
    const name = toVersion(field)
    return name !== undefined && schemas.has(name) ? [name] : []
  }
  const renameAll = (names: readonly string[] = []) => names.flatMap(rename)
  const renameKeys = <T>(record: Readonly<Record<string, T>> = {}): Record<string, T> =>
    Object.fromEntries(
      Object.entries(record).flatMap(([field, value]) => rename(field).map((name) => [name, value])),
    )
  const { aggregates, defaultSort, filterValues, fields } = resource
  const sort = defaultSort?.replace(/^-/, '')
  return {
    ...resource,
    schemas: {
      ...resource.schemas,
      read: { ...resource.schemas.read, properties: Object.fromEntries(properties) },
    },
    filters: renameAll(resource.filters),
    negations: renameAll(resource.negations),
    nullChecks: renameAll(resource.nullChecks),
    prefixes: renameAll(resource.prefixes),
    ranges: renameAll(resource.ranges),
    search: renameAll(resource.search),
    sorts: renameKeys(resource.sorts),
    ...(defaultSort && sort && { defaultSort: defaultSort.replace(sort, () => toVersion(sort) ?? sort) }),
    ...(fields && { fields: renameKeys(fields) }),
    ...(filterValues && { filterValues: renameKeys(filterValues) }),
    ...(aggregates && {
      aggregates: { measures: renameAll(aggregates.measures), groups: renameAll(aggregates.groups) },
    }),
  }
}

/** Returns a resource as a version sees it, for the schemas of its parameters: the names are those of the version. */
export function toVersionView(resource: Resource, mappings: FieldMappings): Resource {
  const view = renameFields(resource, mappings)
  if (!Object.values(resource.relations).some(({ to }) => to.name in mappings)) return view
  const relations = Object.entries(resource.relations).map(([name, { filters = [], ...relation }]) => {
    const { toVersion } = getFieldNames(relation.to, mappings)
    const renamed = filters.flatMap((field) => toVersion(field) ?? [])
    return [name, { ...relation, to: renameFields(relation.to, mappings), filters: renamed }]
  })
  return { ...view, relations: Object.fromEntries(relations) }
}

/** Creates the function that returns filters with the names of the collection. */
export function createToCollection(resource: Resource, mappings: FieldMappings) {
  const { toCollection } = getFieldNames(resource, mappings)
  const related = new Map(
    Object.entries(resource.relations).map(([name, { to }]) => [name, getFieldNames(to, mappings)]),
  )
  return <F extends Pick<ListFilters, 'filters' | 'bounds' | 'conditions'>>(sent: F): F => ({
    ...sent,
    filters: Object.fromEntries(
      Object.entries(sent.filters).map(([name, values]) => [toCollection(name), values]),
    ),
    bounds: sent.bounds.map((bound) => ({ ...bound, field: toCollection(bound.field) })),
    conditions: sent.conditions.map((condition) => {
      const { kind, field: name, relation } = condition
      const field = relation === undefined ? toCollection(name) : related.get(relation)?.toCollection(name)
      if (field === undefined) return condition
      return {
        ...condition,
        field,
        name: relation === undefined ? `${field}_${kind}` : `${relation}.${field}`,
      }
    }),
  })
}

/** Returns what an error says, with the names of the version. */
export function renameViolations(
  { message, violations }: { message: string; violations: readonly Violation[] },
  { toVersion }: FieldNames,
): { message: string; violations: readonly Violation[] } {
  const renamed = violations.map((each) => {
    const [field = '', ...rest] = each.field.split('.')
    return { ...each, field: [toVersion(field) ?? field, ...rest].join('.') }
  })
  const [fields, names] = [violations, renamed].map((each) => each.map(({ field }) => field))
  if (fields && names && message === describeTaken(fields).message) return describeTaken(names)
  const subject = `The ${violations[0]?.field} `
  if (!message.startsWith(subject)) return { message, violations: renamed }
  return { message: `The ${renamed[0]?.field} ${message.slice(subject.length)}`, violations: renamed }
}

/** Returns what is wrong with the mapping of a version. */
export function* findMappingMistakes(
  resources: readonly Resource[],
  mappings: FieldMappings,
): Generator<string> {
  for (const [name, { sources }] of Object.entries(mappings)) {
    const known = resources.find((each) => each.name === name)?.schemas.read.properties
    if (!known) yield `there is no collection ${name}`
    for (const [field, from] of Object.entries(known ? sources : {})) {
      const unknown = from.find((each) => !(known && each in known))
      if (unknown === undefined) continue
      yield unknown === field
        ? `${name}: the collection has no field "${field}"; name those of which it is made in \`sources: { ${field}: [...] }\``
        : `${name}: the source "${unknown}" of "${field}" is no field of the collection`
    }
  }
}
