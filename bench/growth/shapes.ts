/** What is asked at each size: every list in every way that its resource offers. */
import type { ResolvedResource } from '../../plugins/collection/resolve.ts'
import { createSortTerms, readPosition } from '../../plugins/collection/sql/keyset.ts'
import type { CollectionSample, Sample } from './samples.ts'

/** One request: the values differ, the statements do not. */
interface Variant {
  path: string
  /** Where the page begins; undefined: as the path says. */
  position?: readonly string[]
}

export interface Shape {
  /** The same at every size. */
  label: string
  /** Whether it must touch as many pages at any size. */
  isFlat?: boolean
  variants: readonly Variant[]
}

/** Any cursor of that list, which `Watch.moveTo` then moves. */
const CURSOR = '{cursor}'

function sorted(
  resource: ResolvedResource,
  path: string,
  sort: string,
  rows: CollectionSample['rows'],
): Shape {
  const sorts = sort.split(',').map((name) => ({
    name: name.replace('-', ''),
    descending: name.startsWith('-'),
  }))
  const terms = createSortTerms(resource)(sorts)
  return {
    label: `sort=${sort}, deep`,
    isFlat: sorts.length === 1,
    variants: rows.map((row) => ({
      path: `${path}?sort=${sort}&cursor=${CURSOR}`,
      position: readPosition(row, terms),
    })),
  }
}

const one = (label: string, path: string): Shape => ({ label, variants: [{ path }] })

/** The requests of one collection. */
export function shapesOf(resource: ResolvedResource, sample: Sample, isMember: boolean): Shape[] {
  const found = sample.collections[resource.name]
  if (!found) throw new Error(`There is no sample of ${resource.name}`)
  const path = resource.parent ? `/users/${sample.author}/posts` : `/${resource.name}`
  const rows = isMember && found.own.length > 0 ? found.own : found.rows
  const names = Object.keys(resource.sorts)
  const includes = Object.keys(resource.relations)
  const reads = (query = '') => rows.map(({ id }) => ({ path: `${path}/${id}${query}` }))
  const [first = '', second = ''] = names
  return [
    { label: 'by id', isFlat: true, variants: reads() },
    ...includes.map((name) => ({ label: `by id, include=${name}`, variants: reads(`?include=${name}`) })),
    { ...one('first page', path), isFlat: true },
    ...names.flatMap((name) => [
      sorted(resource, path, name, rows),
      sorted(resource, path, `-${name}`, rows),
    ]),
    sorted(resource, path, `${first},${second}`, rows),
    sorted(resource, path, `-${first},${second}`, rows),
    ...resource.filters.flatMap((name) =>
      (found.values[name] ?? []).map(({ value, label }) =>
        one(`${name}=${label}`, `${path}?${name}=${value}`),
      ),
    ),
    one('created_after', `${path}?created_after=${sample.middle}`),
    one('created_before', `${path}?created_before=${sample.middle}`),
    ...Object.entries(found.words).map(([label, words]) =>
      one(`search: ${label}`, `${path}?search=${encodeURIComponent(words)}`),
    ),
    ...includes.map((name) => one(`include=${name}`, `${path}?include=${name}`)),
    one('page=1, counted', `${path}?page=1`),
    one('page=500, counted', `${path}?page=500`),
  ]
}

/** A path with the cursor of a page of its own list. */
export const withCursor = (path: string, cursor: string) =>
  path.replace(CURSOR, () => encodeURIComponent(cursor))

/** The path of the page that such a cursor is had from; undefined where it needs none. */
export const beforeCursor = (path: string): string | undefined =>
  path.includes(CURSOR) ? path.replace(`cursor=${CURSOR}`, 'limit=1') : undefined
