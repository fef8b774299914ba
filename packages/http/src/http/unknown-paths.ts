/** Describes a path that no route has: its first unknown segment, and the nearest collection. */
import { closest, distance as getEditDistance } from 'fastest-levenshtein'

/** Characters. Longer segments are neither compared nor repeated in the message; no collection has half of it. */
const MAX_SEGMENT_LENGTH = 64
/** A name that differs more is another word. */
const MAX_EDITS = 2

/** What a message may repeat: text that needs no escaping. */
const PLAIN = /^[\w.~-]+$/

const split = (path: string) => path.split('/').slice(1)

const isParameter = (segment: string) => segment.startsWith(':')

/** Returns the routes whose first segments match those of the path. */
const selectFitting = (routes: readonly (readonly string[])[], path: readonly string[]) =>
  routes.filter((route) => path.every((segment, i) => route[i] === segment || isParameter(route[i] ?? '')))

/**
 * Returns the message for a path, or undefined if none is better than the general one.
 * @param path below the version: `/user`
 * @param urls of the routes below the version: `/users/:id`
 */
export function describeUnknownPath(path: string, urls: Iterable<string>): string | undefined {
  // A path that names nothing below the version still has its prefix.
  if (/^\/(?:api\/|v\d)/.test(path)) return undefined
  const segments = split(path)
  const routes = [...urls].map(split)
  const known = segments.findIndex((_, i) => selectFitting(routes, segments.slice(0, i + 1)).length === 0)
  const segment = segments[known]
  if (segment === undefined || segment.length > MAX_SEGMENT_LENGTH || !PLAIN.test(segment)) return undefined
  const siblings = selectFitting(routes, segments.slice(0, known)).flatMap((route) =>
    route[known] === undefined ? [] : [{ name: route[known], prefix: route.slice(0, known) }],
  )
  if (siblings.length === 0) return undefined
  const message = `There is no collection "${segment}"`
  const sent = segment.toLowerCase()
  const nearest = closest(
    sent,
    siblings.map(({ name }) => name),
  )
  if (getEditDistance(sent, nearest) > MAX_EDITS) return message
  const prefix = siblings.find(({ name }) => name === nearest)?.prefix ?? []
  const parents = prefix.map((parent) => (isParameter(parent) ? `{${parent.slice(1)}}` : parent))
  return `${message}; did you mean /${[...parents, nearest].join('/')}?`
}
