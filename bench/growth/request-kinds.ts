/** Creates the requests to measure: every sort, filter, search and include that a collection offers. */
import type { Resource } from '../../packages/resources/src/definition/resource.ts'
import { readPosition } from '../../packages/resources/src/sql/keyset.ts'
import type { CollectionValues, SampleValues } from './sample-values.ts'

/** One request of a kind: the values differ, the statements are the same. */
interface RequestVariant {
  path: string
  /** The position at which the page begins; undefined leaves the path as it is. */
  position?: readonly string[]
}

export interface RequestKind {
  /** The same at every size of the data. */
  label: string
  /** Whether the cost must not grow with the data. */
  hasConstantCost?: boolean
  variants: readonly RequestVariant[]
}

/** Stands for a cursor of the list; `StatementRecorder.setPosition` then replaces its position. */
const CURSOR_PLACEHOLDER = '{cursor}'

function createSortedKind(
  resource: Resource,
  path: string,
  sort: string,
  rows: CollectionValues['rows'],
): RequestKind {
  const sorts = sort.split(',').map((name) => ({
    name: name.replace('-', ''),
    descending: name.startsWith('-'),
  }))
  return {
    label: `sort=${sort}, deep`,
    hasConstantCost: sorts.length === 1,
    variants: rows.map((row) => ({
      path: `${path}?sort=${sort}&cursor=${CURSOR_PLACEHOLDER}`,
      position: readPosition(resource, sorts, row),
    })),
  }
}

const createSingleKind = (label: string, path: string): RequestKind => ({ label, variants: [{ path }] })

/** Returns the kinds of requests of one collection. */
export function createRequestKinds(
  resource: Resource,
  sample: SampleValues,
  isMember: boolean,
): RequestKind[] {
  const collection = sample.collections[resource.name]
  if (!collection) throw new Error(`Collection ${resource.name} has no sample values`)
  const path = resource.parent ? `/users/${sample.authorId}/posts` : `/${resource.name}`
  const rows = isMember && collection.ownRows.length > 0 ? collection.ownRows : collection.rows
  const sorts = Object.keys(resource.sorts)
  const includes = Object.keys(resource.relations)
  const createReads = (query = '') => rows.map(({ id }) => ({ path: `${path}/${id}${query}` }))
  const [first = '', second = ''] = sorts
  return [
    { label: 'by id', hasConstantCost: true, variants: createReads() },
    ...includes.map((name) => ({
      label: `by id, include=${name}`,
      variants: createReads(`?include=${name}`),
    })),
    { ...createSingleKind('first page', path), hasConstantCost: true },
    ...sorts.flatMap((name) => [
      createSortedKind(resource, path, name, rows),
      createSortedKind(resource, path, `-${name}`, rows),
    ]),
    createSortedKind(resource, path, `${first},${second}`, rows),
    createSortedKind(resource, path, `-${first},${second}`, rows),
    ...resource.filters.flatMap((name) =>
      (collection.filterValues[name] ?? []).map(({ value, label }) =>
        createSingleKind(`${name}=${label}`, `${path}?${name}=${value}`),
      ),
    ),
    createSingleKind('created_after', `${path}?created_after=${sample.middleDate}`),
    createSingleKind('created_before', `${path}?created_before=${sample.middleDate}`),
    ...Object.entries(collection.searches).map(([label, words]) =>
      createSingleKind(`search: ${label}`, `${path}?search=${encodeURIComponent(words)}`),
    ),
    ...includes.map((name) => createSingleKind(`include=${name}`, `${path}?include=${name}`)),
    createSingleKind('page=1, counted', `${path}?page=1`),
    createSingleKind('page=500, counted', `${path}?page=500`),
  ]
}

/** Replaces the cursor placeholder of a path. */
export const insertCursor = (path: string, cursor: string) =>
  path.replace(CURSOR_PLACEHOLDER, () => encodeURIComponent(cursor))

/** Returns the path of a page that returns a cursor for the path; undefined if the path needs no cursor. */
export const toFirstPagePath = (path: string): string | undefined =>
  path.includes(CURSOR_PLACEHOLDER) ? path.replace(`cursor=${CURSOR_PLACEHOLDER}`, 'limit=1') : undefined
