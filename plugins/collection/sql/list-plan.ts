/** What the statement of a list depends on, besides the caller and the position. */
import type { Values } from '../../../drizzle/client/prepare.ts'
import type { Sort, SortTerm } from './keyset.ts'
import type { ListFilters } from './list-conditions.ts'

export interface ListPlan extends ListFilters {
  /** The requested fields, with the id; undefined for all. */
  fields: readonly string[] | undefined
  include: readonly string[]
  sorts: readonly Sort[]
  /** The total order of the rows. */
  terms: readonly SortTerm[]
  limit: number
  /** Undefined for cursor pagination. */
  page: number | undefined
  /** Equal for queries that differ only in values, limit and position: they share a statement. */
  shape: string
  /** The values of the parameters in the conditions. */
  values: Values
  /** Whether a caller who may list all rows reads the page from an index alone. Such statements are batched. */
  isQuick: boolean
  /** Whether PostgreSQL plans the statement for its values. */
  customPlan: boolean
}
