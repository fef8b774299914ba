/** What there is in query strings: the schemas of the parameters, which validate and document them. */
import { type ArrayOptions, type TObject, type TProperties, type TSchema, Type } from '@sinclair/typebox'
import { toPascalCase } from '../../../lib/to-words.ts'
import { OneOf } from '../../../schemas/types.ts'
import { buildExample } from '../../openapi/examples.ts'
import type { ResourceDefinition } from '../definition.ts'
import { DEFAULT_LIMIT } from '../reply-size.ts'

/** The order of a list without `sort`. */
export const DEFAULT_SORT = '-created_at'
/** Rows before the last page that `page` can reach. */
export const MAX_OFFSET = 10_000
export const MAX_SORTS = 5
export const MAX_INCLUDES = 3

/** The parts of a definition, or of a resource, from which parameters follow. */
type QueriedResource = Pick<
  ResourceDefinition,
  | 'singular'
  | 'schemas'
  | 'filters'
  | 'filterValues'
  | 'ranges'
  | 'sorts'
  | 'defaultSort'
  | 'pagination'
  | 'search'
> & {
  relations: Readonly<Record<string, unknown>>
}

/**
 * Builds a parameter that names fields or relations, with commas. `list-query.ts` checks the names, and says more than a
 * keyword could; the documents list them.
 */
const buildNames = (names: readonly string[], description: string, options: ArrayOptions) =>
  Type.Optional(
    Type.String({
      minLength: 1,
      'x-documented': Type.Array(OneOf(names), { minItems: 1, description, ...options }),
    }),
  )

const buildSelection = (resource: QueriedResource): TProperties => {
  const fields = Object.keys(resource.schemas.read.properties)
  const relations = Object.keys(resource.relations)
  return {
    fields: buildNames(fields, 'Narrows the response to these fields and `id`; its schema requires all', {
      maxItems: fields.length,
      examples: [fields.slice(0, 3)],
    }),
    ...(relations.length > 0 && {
      include: buildNames(relations, 'Related resources to include, at most 3', {
        maxItems: MAX_INCLUDES,
        examples: [relations.slice(0, 1)],
      }),
    }),
  }
}

/** Component names that differ from the name of the parameter, which is that of a schema or too short. */
const componentNames: Record<string, string> = { order: 'SortDirections', page: 'PageNumber' }

/** Returns the name in the components: parameters whose schema depends on the resource have its name too. */
function getComponentName({ singular, filters, ranges = [] }: QueriedResource, name: string): string {
  if (ranges.includes(name.replace(/_(?:min|max)$/, ''))) return `${singular}${toPascalCase(name)}`
  if (filters.includes(name)) return `${singular}${toPascalCase(name)}Filter`
  const isOwn = ['sort', 'fields', 'include', 'search'].includes(name)
  return isOwn ? `${singular}${toPascalCase(name)}` : (componentNames[name] ?? toPascalCase(name))
}

/** Builds the schema of a query string, whose parameters have names in the components of the documents. */
function buildQuery(resource: QueriedResource, parameters: TProperties): TObject {
  const named = Object.entries(parameters).map(([name, schema]) => [
    name,
    { ...schema, 'x-component': getComponentName(resource, name) },
  ])
  return Type.Object(Object.fromEntries(named), { additionalProperties: false })
}

/** Builds the parameters of a single read. */
export const buildSelectionParameters = (resource: QueriedResource): TObject =>
  buildQuery(resource, buildSelection(resource))

/** Different values of a filter. */
export const MAX_FILTER_VALUES = 50

/** The longest text that is compared with a field without a maximum. */
const MAX_TEXT_LENGTH = 255

/** Returns the schema of a value that a field is compared with. NULL cannot be one. */
function buildValue(resource: QueriedResource, field: string): TSchema {
  const property: TSchema = resource.schemas.read.properties[field] ?? Type.Never()
  const { default: _, description: __, type: types, enum: values, format, ...rest } = property
  const type = [types].flat().find((each) => each !== 'null')
  if (values) return { ...rest, type, enum: values.filter((value: unknown) => value !== null) }
  if (format) return { ...rest, type, format }
  // The database has no larger integers, and no text with NUL: `x-trim` refuses control characters.
  const limits: Partial<Record<string, TSchema[string]>> = {
    integer: { minimum: Number.MIN_SAFE_INTEGER, maximum: Number.MAX_SAFE_INTEGER },
    string: { minLength: 1, maxLength: MAX_TEXT_LENGTH, 'x-trim': true },
  }
  return { ...limits[type], ...rest, type, ...(type === 'string' && { 'x-trim': true }) }
}

const buildFilters = (resource: QueriedResource): TProperties =>
  Object.fromEntries(
    resource.filters.map((name) => {
      const { examples, ...value } = resource.filterValues?.[name] ?? buildValue(resource, name)
      const filter = Type.Array(value, {
        minItems: 1,
        maxItems: MAX_FILTER_VALUES,
        description: 'Any of these values',
        examples: [[buildExample({ ...value, ...(examples && { examples }) })]],
      })
      return [name, Type.Optional(filter)]
    }),
  )

/** The two parameters that limit a field. */
interface RangeParameters {
  field: string
  lower: string
  upper: string
  /** Whether the upper limit itself is outside. */
  isHalfOpen: boolean
}

/** Returns the parameters that limit the fields of a resource: its ranges, and the times of creation and change. */
export const listRangeParameters = ({
  ranges = [],
  sorts,
}: Pick<ResourceDefinition, 'ranges' | 'sorts'>): RangeParameters[] => [
  ...ranges.map((field) => ({ field, lower: `${field}_min`, upper: `${field}_max`, isHalfOpen: false })),
  ...['created', 'updated']
    .filter((verb) => verb === 'created' || 'updated_at' in sorts)
    .map((verb) => ({
      field: `${verb}_at`,
      lower: `${verb}_after`,
      upper: `${verb}_before`,
      isHalfOpen: true,
    })),
]

const buildTime = (description: string) =>
  Type.Optional(
    Type.String({
      format: 'date-or-time',
      description: `${description}: a date, which is midnight UTC, or an RFC 3339 time`,
      examples: ['2026-11-21'],
    }),
  )

/** Builds the two parameters that limit a field. */
function buildRange(
  resource: QueriedResource,
  { field, lower, upper, isHalfOpen }: RangeParameters,
): [string, TSchema][] {
  if (isHalfOpen) {
    const verb = field.replace('_at', '')
    return [
      [lower, buildTime(`Only resources ${verb} at this time or later`)],
      [upper, buildTime(`Only resources ${verb} before this time`)],
    ]
  }
  const value = buildValue(resource, field)
  return [
    [lower, Type.Optional({ ...value, description: `The smallest \`${field}\`` })],
    [upper, Type.Optional({ ...value, description: `The greatest \`${field}\`` })],
  ]
}

const buildPageNumber = () =>
  Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: MAX_OFFSET + 1,
      description:
        'Page number; selects pagination with a total. Reaches the first 10,000 rows; cannot be combined with `cursor`',
      examples: [1],
    }),
  )

/** Builds the parameters of a list. */
export function buildListParameters(resource: QueriedResource): TObject {
  const sorts = Object.keys(resource.sorts)
  const { defaultSort = DEFAULT_SORT } = resource
  return buildQuery(resource, {
    limit: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 100,
        default: DEFAULT_LIMIT,
        description: 'Maximum number of resources on a page',
      }),
    ),
    cursor: Type.Optional(
      Type.String({
        description: '`pagination.cursor` of the previous page; empty for the first page',
        examples: [''],
      }),
    ),
    ...(resource.pagination === 'cursor' ? {} : { page: buildPageNumber() }),
    sort: buildNames(
      [...sorts, ...sorts.map((name) => `-${name}`)],
      `Fields to sort by, at most 5; \`-\` means descending. Default: \`${defaultSort}\``,
      { maxItems: MAX_SORTS, examples: [[defaultSort]] },
    ),
    order: buildNames(
      ['asc', 'desc'],
      'Directions, `asc` or `desc`, for the fields of `sort` in the same order',
      { maxItems: MAX_SORTS, examples: [['desc']] },
    ),
    ...buildFilters(resource),
    ...Object.fromEntries(listRangeParameters(resource).flatMap((range) => buildRange(resource, range))),
    ...(resource.search.length > 0 && {
      search: Type.Optional(
        Type.String({
          minLength: 1,
          maxLength: 100,
          'x-trim': true,
          description: `At most 8 words, all of which must occur, each in any of: ${resource.search.join(', ')}`,
          examples: ['tea'],
        }),
      ),
    }),
    ...buildSelection(resource),
  })
}
