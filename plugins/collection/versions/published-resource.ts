/** A resource by the names of its definition, and by the names that one version publishes. */
import type { ResolvedResource } from '../resolve.ts'
import type { Sort } from '../sql/keyset.ts'
import type { FieldNames } from './field-names.ts'

/** If the fields do not differ in the version, `published` is `resource`. */
export interface PublishedResource {
  /** With the names of the definition: for SQL, actions and checks. */
  resource: ResolvedResource
  /** With the names of the version: for bodies, query strings and OpenAPI. */
  published: ResolvedResource
  /** Undefined if the fields of the resource do not differ in the version. */
  names: FieldNames | undefined
}

/** The parts of a query string that name fields. */
interface NamedFields {
  fields: readonly string[] | undefined
  sorts: readonly Sort[]
  filters: Readonly<Record<string, string>>
}

/** Returns a query with the names of the definition in place of those of the version. */
export const toInternalQuery = <Query extends NamedFields>(
  query: Query,
  { toInternal, toInternalFields }: FieldNames,
): Query & NamedFields => ({
  ...query,
  fields: query.fields?.map(toInternal),
  sorts: query.sorts.map(({ name, descending }) => ({ name: toInternal(name), descending })),
  filters: toInternalFields(query.filters),
})
