/** Builds the Link header of a list (RFC 8288), in the form of address that the client used. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Pagination } from '../../versioning/representation/types.ts'
import { MAX_OFFSET } from '../request/parameters.ts'

/** Returns the links of a page: `next` and `first`; with `page` also `prev` and `last`, up to the deepest page allowed. */
function buildLinks(address: string, query: string, pagination: Pagination, limit: number): string {
  const parameters = new URLSearchParams(query)
  parameters.delete('cursor')
  parameters.delete('page')
  const rest = parameters.toString()
  const link = (rel: string, name: 'cursor' | 'page', value: string | undefined) => {
    // Numbers and cursors need no percent-encoding.
    const text = [rest, value === undefined ? '' : `${name}=${value}`].filter(Boolean).join('&')
    return `<${address}${text === '' ? '' : `?${text}`}>; rel="${rel}"`
  }
  if (!('page' in pagination)) {
    const { cursor, has_more } = pagination
    // A list that may grow has a cursor after its last page too.
    const next = cursor === null || !has_more ? [] : [link('next', 'cursor', cursor)]
    return [...next, link('first', 'cursor', undefined)].join(', ')
  }
  const { page, total_pages } = pagination
  const reachable = Math.floor(MAX_OFFSET / limit) + 1
  const pages = Math.min(total_pages, reachable)
  return [
    ...(page < pages ? [link('next', 'page', String(page + 1))] : []),
    link('first', 'page', '1'),
    ...(page > 1 ? [link('prev', 'page', String(Math.max(1, Math.min(page - 1, pages))))] : []),
    ...(pages > 0 ? [link('last', 'page', String(pages))] : []),
  ].join(', ')
}

/** Sets the Link header of a page, besides an earlier one: a deprecated version has set a link to its successor. */
export function setLinks(
  { raw, server }: FastifyRequest,
  reply: FastifyReply,
  publicUrl: string | undefined,
  pagination: Pagination,
  limit: number,
): void {
  const { form, path, query } = server.addressing.getAddress(raw)
  const links = buildLinks(`${publicUrl ?? ''}${form}${path}`, query, pagination, limit)
  const earlier = reply.getHeader('link')
  reply.header('link', earlier ? `${earlier}, ${links}` : links)
}
