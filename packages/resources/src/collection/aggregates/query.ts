/** The query string of aggregates: `measures=count,sum:total_amount&group_by=status`, with the filters of the list. */
import type { Violation } from '@resource-api/http'
import { createViolation, getDecode, withDecode } from '@resource-api/http/internal'
import { OneOf } from '@resource-api/http/schemas'
import { type TObject, type TSchema, type TUnsafe, Type } from '@sinclair/typebox'
import type { ResourceDefinition } from '../definition.ts'
import type { ListQuery } from '../query.ts'
import { createListQuery } from '../request/list-query.ts'
import { buildListParameters } from '../request/parameters.ts'
import { checkNames, splitNames } from '../request/selection.ts'
import type { Resource } from '../resource.ts'

const MAX_MEASURES = 5
const MAX_MEMBERS = 2

/** The parameters of a list that select no rows. */
const OTHER_PARAMETERS = ['limit', 'cursor', 'page', 'sort', 'order', 'fields', 'include']

export const functions = ['sum', 'avg', 'min', 'max'] as const
const units = ['day', 'week', 'month'] as const

export type Measure = { function: 'count' } | { function: (typeof functions)[number]; field: string }

export interface Group {
  field: string
  /** Of a time. */
  unit?: (typeof units)[number]
}

export interface AggregateQuery {
  measures: readonly Measure[]
  groups: readonly Group[]
  /** The rows, as the list selects them. */
  list: ListQuery
}

type Aggregated = Pick<ResourceDefinition, 'aggregates' | 'schemas'>

const getSchema = ({ schemas }: Aggregated, field: string): TSchema =>
  schemas.read.properties[field] ?? Type.Never()

export const isTime = (resource: Aggregated, field: string): boolean =>
  ['date', 'date-time'].includes(getSchema(resource, field).format ?? '')

export const isDecimal = (resource: Aggregated, field: string): boolean =>
  getSchema(resource, field).format === 'decimal'

export const isNumeric = (resource: Aggregated, field: string): boolean =>
  isDecimal(resource, field) ||
  [getSchema(resource, field).type].flat().some((type) => type === 'integer' || type === 'number')

/** Returns the measures of a resource by their names in a query, such as `sum:total_amount`. */
export const listMeasures = (resource: Aggregated): ReadonlyMap<string, Measure> =>
  new Map<string, Measure>([
    ['count', { function: 'count' }],
    ...(resource.aggregates?.measures ?? []).flatMap((field) =>
      functions
        .filter((name) => name === 'min' || name === 'max' || isNumeric(resource, field))
        .map((name) => [`${name}:${field}`, { function: name, field }] as const),
    ),
  ])

/** Returns what groups can be by, by their names in a query: `status`, or `created_at:day`. */
export const listGroups = (resource: Aggregated): ReadonlyMap<string, Group> =>
  new Map(
    (resource.aggregates?.groups ?? []).flatMap((field): [string, Group][] =>
      isTime(resource, field)
        ? units.map((unit) => [`${field}:${unit}`, { field, unit }])
        : [[field, { field }]],
    ),
  )

/** Builds a parameter of names with commas. `readNames` checks them. */
const buildNames = (names: Iterable<string>, maxItems: number, component: string, description: string) => {
  const known = [...names]
  const options = { minItems: 1, maxItems, uniqueItems: true, examples: [known.slice(0, 2)] }
  return Type.String({
    minLength: 1,
    'x-component': component,
    'x-documented': Type.Array(OneOf(known), { description, ...options }),
  })
}

/** Returns what the names of a parameter stand for. @param getKey what no two may have in common */
function readNames<T>(
  parameter: string,
  sent: string | undefined,
  known: ReadonlyMap<string, T>,
  { max, getKey }: { max: number; getKey(value: T): string },
  violations: Violation[],
): T[] {
  const names = splitNames(sent)
  const values = names.flatMap((name) => known.get(name) ?? [])
  checkNames(parameter, names, [...known.keys()], violations)
  const report = (isWrong: boolean, message: string) => {
    if (isWrong) violations.push(createViolation(parameter, message, 'INVALID_VALUE'))
  }
  report(names.length > max, `must not have more than ${max} names`)
  report(new Set(values.map(getKey)).size < values.length, 'must not repeat a name')
  return values
}

interface AggregateValues {
  measures?: string
  group_by?: string
}

/** Builds the schema of the query string. */
export function buildAggregateParameters(resource: Resource): TObject {
  const { singular } = resource
  const groups = listGroups(resource)
  const filters = Object.entries(buildListParameters(resource).properties).filter(
    ([name]) => !OTHER_PARAMETERS.includes(name),
  )
  return Type.Object(
    {
      measures: buildNames(
        listMeasures(resource).keys(),
        MAX_MEASURES,
        `${singular}Measures`,
        `What is computed of each group, at most ${MAX_MEASURES}`,
      ),
      ...(groups.size > 0 && {
        group_by: Type.Optional(
          buildNames(
            groups.keys(),
            MAX_MEMBERS,
            `${singular}Groups`,
            `The fields whose values make the groups, at most ${MAX_MEMBERS}; times in UTC, weeks from Monday. Default: one group`,
          ),
        ),
      }),
      ...Object.fromEntries(filters),
    },
    { additionalProperties: false },
  )
}

/** Returns the schema of the query string. Handlers get it as an `AggregateQuery`. */
export function createAggregateQuery(resource: Resource): TUnsafe<AggregateQuery> {
  const measures = listMeasures(resource)
  const groups = listGroups(resource)
  const decodeList = getDecode(createListQuery(resource))
  const schema = buildAggregateParameters(resource)
  return withDecode(schema, ({ measures: names, group_by: by, ...values }: AggregateValues, violations) => ({
    measures: readNames(
      'measures',
      names,
      measures,
      { max: MAX_MEASURES, getKey: (measure) => Object.values(measure).join(':') },
      violations,
    ),
    groups: readNames('group_by', by, groups, { max: MAX_MEMBERS, getKey: ({ field }) => field }, violations),
    // The schema has the parameters of the list with the same validation.
    list: decodeList?.(values, violations) as ListQuery,
  }))
}
