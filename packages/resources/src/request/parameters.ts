/** What there is in query strings: the schemas of the parameters, which validate and document them. */
import { buildExample, toPascalCase } from '@resource-api/api/documents'
import { OneOf } from '@resource-api/api/schemas'
import { getRowParts, isExisting } from '@resource-api/database/key'
import { type ArrayOptions, type TObject, type TProperties, type TSchema, Type } from '@sinclair/typebox'
import type { ResourceDefinition } from '../definition/definition.ts'
import type { FilterCondition, FilterValue } from '../definition/query.ts'
import { DEFAULT_LIMIT } from '../sql/reply-size.ts'

/** The order of a list without `sort`. */
export const DEFAULT_SORT = '-created_at'
/** Rows before the last page that `page` can reach. */
export const MAX_OFFSET = 10_000
export const MAX_SORTS = 5
export const MAX_INCLUDES = 3
/** Different values of a filter. */
export const MAX_FILTER_VALUES = 50
/** The longest text that is compared with a field without a maximum. */
const MAX_TEXT_LENGTH = 255

/** The longest text of a `{field}_prefix`. */
const MAX_PREFIX_LENGTH = 100

/** What parameters depend on: a definition without relations, or a resource. */
export interface QueriedResource
  extends Pick<
    ResourceDefinition,
    | 'singular'
    | 'filters'
    | 'negations'
    | 'nullChecks'
    | 'prefixes'
    | 'ranges'
    | 'search'
    | 'defaultSort'
    | 'pagination'
    | 'filterValues'
    | 'fields'
    | 'table'
  > {
  schemas: Pick<ResourceDefinition['schemas'], 'read'>
  sorts: Readonly<Record<string, unknown>>
  relations: Readonly<Record<string, { to: QueriedResource; filters?: readonly string[] }>>
}

type ConditionParameter = Pick<FilterCondition, 'kind' | 'field' | 'relation'> & { parameter: string }

/** Returns the parameters of the filters that are not equality with a field of the resource. */
export const listConditionParameters = ({
  negations = [],
  nullChecks = [],
  prefixes = [],
  relations,
}: Pick<ResourceDefinition, 'negations' | 'nullChecks' | 'prefixes'> & {
  relations: Readonly<Record<string, { filters?: readonly string[] }>>
}): ConditionParameter[] => [
  ...negations.map((field) => ({ kind: 'not' as const, field, parameter: `${field}_not` })),
  ...nullChecks.map((field) => ({ kind: 'null' as const, field, parameter: `${field}_null` })),
  ...prefixes.map((field) => ({ kind: 'prefix' as const, field, parameter: `${field}_prefix` })),
  ...Object.entries(relations).flatMap(([relation, { filters = [] }]) =>
    filters.map((field) => ({
      kind: 'related' as const,
      field,
      relation,
      parameter: `${relation}.${field}`,
    })),
  ),
]

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

/** Returns the name in the components: parameters whose schema depends on the resource have its name too. */
function getComponentName(resource: QueriedResource, name: string): string {
  const { singular, filters, ranges = [] } = resource
  const own = `${singular}${toPascalCase(name.replace('.', '_'))}`
  const isCondition = listConditionParameters(resource).some(({ parameter }) => parameter === name)
  if (isCondition || filters.includes(name)) return `${own}Filter`
  if (ranges.includes(name.replace(/_(?:min|max)$/, ''))) return own
  if (['sort', 'fields', 'include', 'search'].includes(name)) return own
  // Their own names are that of a schema, and too short.
  if (name === 'order') return 'SortDirections'
  return name === 'page' ? 'PageNumber' : toPascalCase(name)
}

/** Builds the schema of a query string, whose parameters have names in the components of the documents. */
function buildQuery(resource: QueriedResource, parameters: TProperties): TObject {
  const named = Object.entries(parameters).map(([name, schema]) => [
    name,
    { ...schema, 'x-component': getComponentName(resource, name) },
  ])
  return Type.Object(Object.fromEntries(named), { additionalProperties: false })
}

export const buildSelectionParameters = (resource: QueriedResource): TObject =>
  buildQuery(resource, buildSelection(resource))

/** Returns the schema of a value that a field is compared with. NULL cannot be one. */
function buildValue(resource: QueriedResource, field: string): TSchema {
  const property: TSchema = resource.schemas.read.properties[field] ?? Type.Never()
  const { default: _, description: __, type: types, enum: values, format, ...rest } = property
  const type = [types].flat().find((each) => each !== 'null')
  if (values) return { ...rest, type, enum: values.filter((value: unknown) => value !== null) }
  // An id that cannot be is of no row: see `createReadFilters`.
  if (field === 'id' && isExisting(resource.table) && type === 'string' && format !== 'uuid')
    return { ...rest, type, minLength: 1 }
  if (format) return { ...rest, type, format }
  // The database has no larger integers, and no text with NUL: `x-trim` refuses control characters.
  if (type === 'string') return { minLength: 1, maxLength: MAX_TEXT_LENGTH, ...rest, type, 'x-trim': true }
  if (type !== 'integer') return { ...rest, type }
  return { minimum: Number.MIN_SAFE_INTEGER, maximum: Number.MAX_SAFE_INTEGER, ...rest, type }
}

/** Returns what the values of a field mean, as a part of a sentence. Other letters than the first stay as they are. */
function describeField({ schemas, filterValues }: QueriedResource, name: string): string {
  const text: unknown = filterValues?.[name]?.description ?? schemas.read.properties[name]?.description
  if (typeof text !== 'string') return ''
  return ` (${text.replace(/^[A-Z](?=[a-z]| )/, (first) => first.toLowerCase())})`
}

/** Returns who may use a parameter of a field that not every role may read, which the description of the field says. */
const describeReaders = (resource: QueriedResource, name: string): string =>
  resource.fields?.[name] ? describeField(resource, name) : ''

/** Returns what the values of a filter mean: of an enum, or of values that differ from those of the field. */
function describeValues(resource: QueriedResource, name: string): string {
  const hasMeaning = resource.schemas.read.properties[name]?.enum || resource.filterValues?.[name]
  return hasMeaning ? describeField(resource, name) : describeReaders(resource, name)
}

function buildFilter(resource: QueriedResource, name: string, description: string): TSchema {
  const {
    examples,
    description: _,
    ...value
  }: TSchema = resource.filterValues?.[name] ?? buildValue(resource, name)
  return Type.Array(value, {
    minItems: 1,
    maxItems: MAX_FILTER_VALUES,
    description: `${description}${describeValues(resource, name)}`,
    examples: [[buildExample({ ...value, ...(examples && { examples }) })]],
  })
}

function buildCondition(
  resource: QueriedResource,
  { kind, field, relation = '' }: ConditionParameter,
): TSchema {
  const whose = `Only resources whose \`${field}\``
  if (kind === 'not') return buildFilter(resource, field, `${whose} is none of these values`)
  if (kind === 'null') {
    const description = `${whose} is null with \`true\`, or only the others with \`false\`${describeReaders(resource, field)}`
    return Type.Boolean({ description, examples: [false] })
  }
  if (kind === 'prefix') {
    return Type.String({
      minLength: 1,
      maxLength: MAX_PREFIX_LENGTH,
      'x-trim': false,
      description: `${whose} begins with this text, regardless of case${describeReaders(resource, field)}`,
      examples: [String(buildExample(buildValue(resource, field))).slice(0, 3)],
    })
  }
  const to = resource.relations[relation]?.to
  const described = `Only resources whose \`${relation}\` has one of these values as \`${field}\``
  return to ? buildFilter(to, field, described) : Type.Never()
}

const buildFilters = (resource: QueriedResource): TProperties =>
  Object.fromEntries([
    ...resource.filters.map((name) => [
      name,
      Type.Optional(buildFilter(resource, name, `Only resources whose \`${name}\` is one of these values`)),
    ]),
    ...listConditionParameters(resource).map((condition) => [
      condition.parameter,
      Type.Optional(buildCondition(resource, condition)),
    ]),
  ])

/**
 * Returns all values of an enum or a boolean that is never null, sorted, if a filter may have as many: its negation is then
 * a filter by the other values, which reads the same index. Undefined for other fields.
 */
export function listValues(
  { schemas, filterValues }: Pick<QueriedResource, 'schemas' | 'filterValues'>,
  name: string,
): readonly FilterValue[] | undefined {
  const { type, enum: states }: TSchema = schemas.read.properties[name] ?? Type.Never()
  const values: readonly FilterValue[] | undefined = type === 'boolean' ? [false, true] : states
  const isNullable = [type].flat().includes('null')
  if (!values || isNullable || filterValues?.[name] || values.length > MAX_FILTER_VALUES) return undefined
  return [...values].sort((a, b) => (a < b ? -1 : 1))
}

/** Returns the parameters that add a condition to the statement. The others are filters by the other values. */
export const listConditions = (resource: QueriedResource): ConditionParameter[] =>
  listConditionParameters(resource).filter(
    ({ kind, field }) => kind !== 'not' || listValues(resource, field) === undefined,
  )

interface RangeParameters {
  field: string
  lower: string
  upper: string
  /** Whether the upper limit itself is outside. */
  isHalfOpen: boolean
}

/** Returns the parameters that limit the fields of a resource: its ranges, and the times of creation and change. */
export function listRangeParameters({
  ranges = [],
  sorts,
  table,
}: Pick<QueriedResource, 'ranges' | 'sorts' | 'table'>): RangeParameters[] {
  const { created, updated } = getRowParts(table)
  const times = [created, updated && updated in sorts ? updated : undefined].filter(
    (name) => name !== undefined,
  )
  return [
    ...ranges.map((field) => ({ field, lower: `${field}_min`, upper: `${field}_max`, isHalfOpen: false })),
    ...times.map((field) => {
      const verb = field.replace(/_at$/, '')
      return { field, lower: `${verb}_after`, upper: `${verb}_before`, isHalfOpen: true }
    }),
  ]
}

const buildTime = (description: string) =>
  Type.Optional(
    Type.String({
      format: 'date-or-time',
      description: `${description}: a date, which is midnight UTC, or an RFC 3339 time`,
      examples: ['2026-11-21'],
    }),
  )

const buildRanges = (resource: QueriedResource): TProperties =>
  Object.fromEntries(
    listRangeParameters(resource).flatMap(({ field, lower, upper, isHalfOpen }) => {
      const verb = field.replace('_at', '')
      const value = isHalfOpen ? undefined : buildValue(resource, field)
      const describeLimit = (limit: string) =>
        `Only resources whose \`${field}\` is ${limit} this value${describeField(resource, field)}`
      return [
        [
          lower,
          value
            ? Type.Optional({ ...value, description: describeLimit('at least') })
            : buildTime(`Only resources ${verb} at this time or later`),
        ],
        [
          upper,
          value
            ? Type.Optional({ ...value, description: describeLimit('at most') })
            : buildTime(`Only resources ${verb} before this time`),
        ],
      ]
    }),
  )

/** The parameters that all lists have, or all with page numbers. */
const LIMIT = Type.Optional(
  Type.Integer({
    minimum: 1,
    maximum: 100,
    default: DEFAULT_LIMIT,
    description: 'Maximum number of resources on a page',
  }),
)
const CURSOR = Type.Optional(
  Type.String({
    description: '`pagination.cursor` of the previous page; empty for the first page',
    examples: [''],
  }),
)
const PAGE = Type.Optional(
  Type.Integer({
    minimum: 1,
    maximum: MAX_OFFSET + 1,
    description:
      'Page number; selects pagination with a total. Reaches the first 10,000 rows; cannot be combined with `cursor`',
    examples: [1],
  }),
)
const ORDER = buildNames(
  ['asc', 'desc'],
  'Directions, `asc` or `desc`, for the fields of `sort` in the same order',
  { maxItems: MAX_SORTS, examples: [['desc']] },
)

export function buildListParameters(resource: QueriedResource): TObject {
  const { defaultSort = DEFAULT_SORT, search } = resource
  const sorts = Object.keys(resource.sorts)
  return buildQuery(resource, {
    limit: LIMIT,
    cursor: CURSOR,
    ...(resource.pagination !== 'cursor' && { page: PAGE }),
    sort: buildNames(
      [...sorts, ...sorts.map((name) => `-${name}`)],
      `Fields to sort by, at most 5; \`-\` means descending. Default: \`${defaultSort}\``,
      { maxItems: MAX_SORTS, examples: [[defaultSort]] },
    ),
    order: ORDER,
    ...buildFilters(resource),
    ...buildRanges(resource),
    ...(search.length > 0 && {
      search: Type.Optional(
        Type.String({
          minLength: 1,
          maxLength: 100,
          'x-trim': true,
          description: `At most 8 words, all of which must occur, each in any of: ${search.join(', ')}`,
          examples: ['tea'],
        }),
      ),
    }),
    ...buildSelection(resource),
  })
}
