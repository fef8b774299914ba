/** Reads the filters of a list: equality, `status_not`, `note_null`, `name_prefix`, `user.status`. */
import { type CredentialRule, getCredentialRule } from '../../access/guards.ts'
import type { FilterCondition, FilterValue, ListFilters } from '../query.ts'
import type { Resource } from '../resource.ts'
import type { BoundValues } from './bounds.ts'
import { listConditions, listValues } from './parameters.ts'
import { getToInternal } from './selection.ts'

type Filters = Pick<ListFilters, 'filters' | 'conditions'>

export function createReadFilters(resource: Resource) {
  const { published, relations } = resource
  const toInternal = getToInternal(resource)
  const parameters = listConditions(published)
  /** The values of the fields whose negation is a filter by the other values. */
  const allValues = new Map(
    (published.negations ?? []).flatMap((name) => {
      const values = listValues(published, name)
      return values ? [[name, values] as const] : []
    }),
  )

  const readValues = (values: BoundValues, name: string): readonly FilterValue[] | undefined => {
    const sent = values[name]
    const wanted = Array.isArray(sent) ? sent : undefined
    const all = allValues.get(name)
    const excluded = all && values[`${name}_not`]
    if (!all || !Array.isArray(excluded)) return wanted
    return (wanted ?? all).filter((value) => !excluded.includes(value))
  }

  return (values: BoundValues): Filters => {
    const filters = published.filters.flatMap((name) => {
      const wanted = readValues(values, name)
      return wanted ? [[toInternal(name), wanted] as const] : []
    })
    const conditions = parameters.flatMap(
      ({ kind, parameter, field: named, relation }): FilterCondition[] => {
        const sent = values[parameter]
        if (sent === undefined) return []
        const to = relation === undefined ? resource : relations[relation]?.to
        const field = to ? getToInternal(to)(named) : named
        const name = relation === undefined ? `${field}_${kind}` : `${relation}.${field}`
        return [{ kind, name, field, relation, values: typeof sent === 'object' ? sent : [sent] }]
      },
    )
    return { filters: Object.fromEntries(filters), conditions }
  }
}

/** Returns the relations that conditions compare. */
export const listComparedRelations = ({ conditions }: Pick<ListFilters, 'conditions'>): string[] =>
  conditions.flatMap(({ relation }) => relation ?? [])

/** Returns what filters by relations require of the credential: the same as an include. */
export const listRequired = ({ relations }: Resource, filters: Filters): CredentialRule[] =>
  listComparedRelations(filters).flatMap((name) => {
    const to = relations[name]?.to
    return to ? [getCredentialRule(to, 'read')] : []
  })
