/** The query string of aggregates: `measures=count,sum:total_amount&group_by=status`, with the filters of the list. */
import type { Violation } from '@resource-api/api/errors'
import { OneOf } from '@resource-api/api/schemas'
import { createViolation, getDecode, withDecode } from '@resource-api/api/validation'
import type { FieldMappings } from '@resource-api/api/versions'
import { type TObject, type TUnsafe, Type } from '@sinclair/typebox'
import type { ListQuery } from '../definition/query.ts'
import type { Resource } from '../definition/resource.ts'
import { createListQuery } from '../request/list-query.ts'
import { buildListParameters } from '../request/parameters.ts'
import { checkNames, splitNames } from '../request/selection.ts'
import { toVersionView } from '../request/version-fields.ts'
import { type Figure, listGroups, listMeasures } from './figures.ts'

/** Groups of a response. */
export const MAX_GROUPS = 1_000
const MAX_MEASURES = 5
const MAX_GROUP_FIELDS = 2

/** The parameters of a list that select no rows. */
const OTHER_PARAMETERS = ['limit', 'cursor', 'page', 'sort', 'order', 'fields', 'include']

export interface AggregateQuery {
  /** The groups, and then the measures, as the version names them. */
  figures: readonly Figure[]
  isGrouped: boolean
  /** The rows, as the list selects them. */
  list: ListQuery
}

/** Of figures with the same key, such as the days and the weeks of a field, a query has one. */
const getKey = ({ part, field }: Figure) => `${part}:${field}`

/** Builds a parameter of names with commas, which `readFigures` checks. */
const buildNames = (figures: readonly Figure[], maxItems: number, component: string, description: string) => {
  const names = figures.map(({ name }) => name)
  const keys = figures.map(getKey)
  const distinct = names.filter((_, i) => keys.indexOf(keys[i] ?? '') === i)
  const options = { minItems: 1, maxItems, uniqueItems: true, examples: [distinct.slice(0, 2)] }
  const documented = Type.Array(OneOf(names), { description, ...options })
  return Type.String({ minLength: 1, 'x-component': component, 'x-documented': documented })
}

/** Builds the schema of the query string. */
export function buildAggregateParameters(resource: Resource): TObject {
  const { singular } = resource
  const groups = listGroups(resource)
  const filters = Object.entries(buildListParameters(resource).properties).filter(
    ([name]) => !OTHER_PARAMETERS.includes(name),
  )
  const measureText = `What is computed of each group, at most ${MAX_MEASURES}`
  const groupText = `The fields whose values make the groups, at most ${MAX_GROUP_FIELDS}; times in UTC, weeks from Monday. Default: one group`
  return Type.Object(
    {
      measures: buildNames(listMeasures(resource), MAX_MEASURES, `${singular}Measures`, measureText),
      ...(groups.length > 0 && {
        group_by: Type.Optional(buildNames(groups, MAX_GROUP_FIELDS, `${singular}Groups`, groupText)),
      }),
      ...Object.fromEntries(filters),
    },
    { additionalProperties: false },
  )
}

/** Returns the schema of the query string. Handlers get it as an `AggregateQuery`. */
export function createAggregateQuery(resource: Resource, mappings: FieldMappings): TUnsafe<AggregateQuery> {
  const view = toVersionView(resource, mappings)
  const known = { measures: listMeasures(view), group_by: listGroups(view) }
  const decodeList = getDecode(createListQuery(resource, mappings))

  const readFigures = (
    parameter: keyof typeof known,
    sent: string | undefined,
    max: number,
    violations: Violation[],
  ): Figure[] => {
    const names = splitNames(sent)
    const figures = names.flatMap((name) => known[parameter].find((each) => each.name === name) ?? [])
    const distinct = new Set(figures.map(getKey))
    checkNames(
      parameter,
      names,
      known[parameter].map(({ name }) => name),
      violations,
    )
    const report = (isWrong: boolean, message: string) => {
      if (isWrong) violations.push(createViolation(parameter, message, 'INVALID_VALUE'))
    }
    report(names.length > max, `must not have more than ${max} names`)
    report(distinct.size < figures.length, 'must not repeat a name')
    return figures
  }

  type Values = { measures?: string; group_by?: string }
  return withDecode(
    buildAggregateParameters(view),
    ({ measures, group_by, ...values }: Values, violations) => ({
      figures: [
        ...readFigures('group_by', group_by, MAX_GROUP_FIELDS, violations),
        ...readFigures('measures', measures, MAX_MEASURES, violations),
      ],
      isGrouped: group_by !== undefined,
      // The schema has the parameters of the list with the same validation.
      list: decodeList?.(values, violations) as ListQuery,
    }),
  )
}
