/** Conditional requests (RFC 9110, section 13): entity tags from revisions, 304, 412, 428. */
import { hash as digest } from 'node:crypto'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { apiError } from './errors.ts'
import { secondOf, toHttpDay } from './http-date.ts'

const hash = (text: string) => digest('sha1', text, 'base64url').slice(0, 12)

/** Clients ask for few shapes over and over; what was included makes one of its own each time, and is long. */
const MOST_SHAPES = 500
const LONGEST_SHAPE = 200
const shapes = new Map<string, string>()

function hashOfShape(shape: string): string {
  const known = shapes.get(shape)
  if (known !== undefined) return known
  const made = hash(shape)
  if (shape.length > LONGEST_SHAPE) return made
  if (shapes.size >= MOST_SHAPES) shapes.clear()
  shapes.set(shape, made)
  return made
}

/** The strong tag of one resource: its revision, and a hash over all else that shapes the representation. */
export const strongTag = (revision: number, shape: string) => `"${revision}-${hashOfShape(shape)}"`

/** The weak tag of a list. */
export const weakTag = (content: string) => `W/"${hash(content)}"`

/** The tags of an If-Match or If-None-Match; `*` for any. What is no tag matches nothing. */
const tagsOf = (header: string): '*' | string[] =>
  header.trim() === '*' ? '*' : (header.match(/(?:W\/)?"[\x21\x23-\x7e\x80-\xff]*"/g) ?? [])

const opaque = (tag: string) => tag.replace(/^W\//, '')

/**
 * Whether any of some tags has a revision: how the client had it represented does not matter. A weak tag counts as
 * its strong one, since proxies that compress weaken tags; others append to them. A list's tag is too short.
 */
const holds = (tags: '*' | string[], revision: number) =>
  tags === '*' || tags.some((tag) => /^(?:W\/)?"(\d+)-[\w-]{12,}"$/.exec(tag)?.[1] === String(revision))

/** A header that is no date is ignored. */
const dateOf = (header: string | undefined) => (header === undefined ? undefined : secondOf(header))

const secondOfRow = (updatedAt: string) => Math.floor(Date.parse(updatedAt) / 1000)

/** Last-Modified, which knows whole seconds only. */
export const lastModified = (updatedAt: string) =>
  `${toHttpDay(updatedAt.slice(0, 10))} ${updatedAt.slice(11, 19)} GMT`

/** Whether what the client has is still what it would get (13.1.2, and 13.1.3 where no tag was sent). */
export function isFresh(request: FastifyRequest, tag: string, updatedAt: string | undefined): boolean {
  const noneMatch = request.headers['if-none-match']
  if (noneMatch !== undefined) {
    const tags = tagsOf(noneMatch)
    return tags === '*' || tags.some((each) => opaque(each) === opaque(tag))
  }
  const since = dateOf(request.headers['if-modified-since'])
  return since !== undefined && updatedAt !== undefined && secondOfRow(updatedAt) <= since
}

/** What a write asks of the row that it finds. */
export interface Precondition {
  /** Whether nothing is asked. */
  isNone: boolean
  /** @throws ApiError 412, with the current tag; 428 where If-Match is required and absent */
  check(row: { revision: number; updated_at: string }, currentTag: string): void
}

/** Of a write that asks nothing. */
const NONE: Precondition = { isNone: true, check() {} }

/** Reads the preconditions of a write (13.1.1, 13.1.2, 13.1.4). */
export function readPrecondition(request: FastifyRequest, required: boolean): Precondition {
  const { 'if-match': match, 'if-none-match': noneMatch, 'if-unmodified-since': unmodified } = request.headers
  const since = match === undefined ? dateOf(unmodified) : undefined
  if (!required && match === undefined && noneMatch === undefined && since === undefined) return NONE
  const isMet = (revision: number, updatedAt: string) =>
    (match === undefined || holds(tagsOf(match), revision)) &&
    (since === undefined || secondOfRow(updatedAt) <= since) &&
    (noneMatch === undefined || !holds(tagsOf(noneMatch), revision))

  return {
    isNone: false,
    check({ revision, updated_at }, tag) {
      if (required && match === undefined) throw apiError('PRECONDITION_REQUIRED')
      if (!isMet(revision, updated_at)) throw apiError('PRECONDITION_FAILED', { headers: { ETag: tag } })
    },
  }
}

/** A 304 carries what the 200 would have, save the body. */
export const notModified = (reply: FastifyReply) => reply.code(304).send()
