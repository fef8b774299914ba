/** Conditional requests (RFC 9110, section 13): entity tags from revisions, 304, 412, 428. */
import { hash as digest } from 'node:crypto'
import etag from '@fastify/etag'
import type { FastifyInstance, FastifyReply, FastifyRequest, onSendHookHandler } from 'fastify'
import fp from 'fastify-plugin'
import { parseHttpDate, toHttpDay } from '../../../lib/http-date.ts'
import { apiError } from '../../errors/index.ts'

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

const hashText = (text: string | Buffer) => digest('sha1', text, 'base64url')

/** The strong tag of a text that is sent as it is. */
export const tagOfText = (text: string) => `"${hashText(text)}"`

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

const failedPrecondition = (tag: string) => apiError('PRECONDITION_FAILED', { headers: { ETag: tag } })

/** A header that is no date is ignored. */
const dateOf = (header: string | undefined) => (header === undefined ? undefined : parseHttpDate(header))

const secondOfRow = (updatedAt: string) => Math.floor(Date.parse(updatedAt) / 1000)

/** Last-Modified, which knows whole seconds only. */
export const lastModified = (updatedAt: string) =>
  `${toHttpDay(updatedAt.slice(0, 10))} ${updatedAt.slice(11, 19)} GMT`

/** Whether a read has a precondition that a replica which lags behind would judge wrongly. */
export const needsPrimary = ({ headers }: FastifyRequest): boolean =>
  headers['if-match'] !== undefined || headers['if-unmodified-since'] !== undefined

/**
 * Evaluates the preconditions of a read in the order of section 13.2.2.
 * @param tag the current entity tag; If-Match compares the whole of it, strongly, so that a weak one never matches
 * @param updatedAt when the representation last changed; undefined where it has no date, and dates are ignored
 * @returns whether the reply is a 304
 * @throws ApiError 412, with the current tag
 */
export function isNotModified(request: FastifyRequest, tag: string, updatedAt?: string): boolean {
  const { headers } = request
  const match = headers['if-match']
  if (match !== undefined) {
    const tags = tagsOf(match)
    if (tags !== '*' && (tag.startsWith('W/') || !tags.includes(tag))) throw failedPrecondition(tag)
  } else if (headers['if-unmodified-since'] !== undefined) {
    const since = dateOf(headers['if-unmodified-since'])
    if (since !== undefined && updatedAt !== undefined && secondOfRow(updatedAt) > since) {
      throw failedPrecondition(tag)
    }
  }

  const noneMatch = headers['if-none-match']
  if (noneMatch !== undefined) {
    const tags = tagsOf(noneMatch)
    return tags === '*' || tags.some((each) => opaque(each) === opaque(tag))
  }
  const since = dateOf(headers['if-modified-since'])
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
      if (!isMet(revision, updated_at)) throw failedPrecondition(tag)
    },
  }
}

/** A 304 carries what the 200 would have, save the body. */
export const notModified = (reply: FastifyReply) => reply.code(304).send()

const dropLengthOf304: onSendHookHandler = (_request, reply, payload, done) => {
  if (reply.statusCode === 304) reply.removeHeader('content-length')
  done(null, payload)
}

/**
 * Drops the `Content-Length: 0` that Fastify adds to a 304 to HEAD: a 304 has the length of the 200 or none (section
 * 8.6). Fastify adds it in the last hook of the routes that it makes for HEAD, so this one is put behind it.
 */
async function conditional(app: FastifyInstance) {
  app.addHook('onRoute', (route) => {
    if (route.method === 'HEAD') route.onSend = [route.onSend ?? [], dropLengthOf304].flat()
  })
}

export default fp(conditional, { name: 'conditional' })

/**
 * Gives the successful replies of a scope a tag, where they have none, and evaluates conditions against it. Only the
 * tag is @fastify/etag's: it compares one tag exactly, knows no If-Match, and would tag errors.
 */
export const entityTags = fp(
  async (scope: FastifyInstance) => {
    await scope.register(etag, { replyWith304: false, hashFn: hashText })
    scope.addHook('onSend', (request, reply, payload, done) => {
      const tag = reply.getHeader('etag')
      if (reply.statusCode === 200 && typeof tag === 'string') {
        if (!isNotModified(request, tag)) return done(null, payload)
        reply.code(304)
        // The hook of Fastify's own HEAD routes, which comes behind, takes no null.
        return done(null, request.method === 'HEAD' ? '' : null)
      }
      if (reply.statusCode !== 412) reply.removeHeader('etag')
      done(null, payload)
    })
  },
  { name: 'entity-tags', dependencies: ['conditional'] },
)
