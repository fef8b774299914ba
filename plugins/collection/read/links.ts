/** Where things stand, in the form of address that the client used: Location, and the Link of a list (RFC 8288). */
import type { FastifyRequest } from 'fastify'
import type { Pagination } from '../../versioning/representation/types.ts'

const DEEPEST = 10_000

/** The path of a request in the client's own form, absolute where a public address is known. */
export const addressOf = (request: FastifyRequest, publicUrl: string | undefined): string => {
  const { form, path } = request.server.addressing.getAddress(request.raw)
  return `${publicUrl ?? ''}${form}${path}`
}

/** Clients walk few lists at a time; beyond this many one begins anew. */
const MOST_LISTS = 1_000
const remainders = new Map<string, string>()

/** A position as clients send it; in another spelling it is found among the parameters. */
const POSITION = /[?&](?:cursor|page)=[^&]*/g

/** A query without what tells a page from another. */
function withoutPage(query: string): string {
  const list = query.replace(POSITION, '')
  const known = remainders.get(list)
  if (known !== undefined) return known
  const parameters = new URLSearchParams(list)
  parameters.delete('cursor')
  parameters.delete('page')
  const made = parameters.toString()
  if (remainders.size >= MOST_LISTS) remainders.clear()
  remainders.set(list, made)
  return made
}

/** The Link header of a page: next and first, and for the offset style prev and last, none deeper than a client may go. */
export function linksOf(address: string, query: string, pagination: Pagination, limit: number): string {
  const rest = withoutPage(query)
  // Numbers and cursors are written as they are.
  const link = (rel: string, name: 'cursor' | 'page', value: string | undefined) => {
    const page = value === undefined ? '' : `${rest === '' ? '' : '&'}${name}=${value}`
    const text = `${rest}${page}`
    return `<${address}${text === '' ? '' : `?${text}`}>; rel="${rel}"`
  }
  if (!('page' in pagination)) {
    const next = pagination.cursor === null ? [] : [link('next', 'cursor', pagination.cursor)]
    return [...next, link('first', 'cursor', undefined)].join(', ')
  }
  const { page, total_pages } = pagination
  const reachable = Math.floor(DEEPEST / limit) + 1
  const pages = Math.min(total_pages, reachable)
  return [
    ...(page < pages ? [link('next', 'page', String(page + 1))] : []),
    link('first', 'page', '1'),
    ...(page > 1 ? [link('prev', 'page', String(Math.max(1, Math.min(page - 1, pages))))] : []),
    ...(pages > 0 ? [link('last', 'page', String(pages))] : []),
  ].join(', ')
}
