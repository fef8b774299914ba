/** Builds entity tags and evaluates conditional requests (RFC 9110, section 13): 304, 412, 428. */
import { hash as digest } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import type { FastifyEtagOptions } from '@fastify/etag'
import type { FastifyInstance, FastifyReply, FastifyRequest, onSendHookHandler } from 'fastify'
import fp from 'fastify-plugin'
import { apiError } from '../errors/errors.ts'
import { parseHttpDate } from './http-date.ts'

/** Returns the whole hash, for texts that are cached for long. */
export const hashText = (text: string | Buffer) => digest('sha1', text, 'base64url')

/** Returns the part of a tag that stands for a text: 72 bits of its hash. A hyphen at its end would be one of a suffix. */
export const hash = (text: string) => hashText(text).slice(0, 12).replace(/-$/, '_')

/** Builds the strong tag of one resource, from the hash of all else that the representation depends on. */
export const buildStrongTag = (revision: number, shapeHash: string) => `"${revision}-${shapeHash}"`

/** Builds the weak tag of a list. */
export const buildWeakTag = (content: string) => `W/"${hash(content)}"`

/** Parses If-Match or If-None-Match; `*` matches any tag. Malformed tags match none, so they are skipped. */
const parseTags = (header: string): '*' | string[] =>
  header.trim() === '*' ? '*' : (header.match(/(?:W\/)?"[\x21\x23-\x7e\x80-\xff]*"/g) ?? [])

/** Removes the mark of a weak tag, for the weak comparison (section 8.8.3.2). */
const toOpaque = (tag: string) => tag.replace(/^W\//, '')

/**
 * What servers in front of this one append to the tag of a response that they compress: Apache and Caddy `-gzip`, Jetty
 * `--gzip`, LiteSpeed `;gz`. Two of them may stand in a row.
 */
const CODING_SUFFIX = /(?:[-;:]{1,3}(?:x-)?(?:gzip|gz|br|zstd|deflate)){1,2}"$/

/** Returns the opaque tags that a sent one may stand for: a tag of this service may itself end like a suffix. */
function listMeanings(tag: string): string[] {
  const opaque = toOpaque(tag)
  return [opaque, opaque.replace(CODING_SUFFIX, '"')]
}

/** Returns whether one of the tags has a revision. */
const hasRevision = (tags: '*' | string[], revision: number) =>
  tags === '*' ||
  tags.flatMap(listMeanings).some((tag) => /^"(\d+)-[\w-]{12,}"$/.exec(tag)?.[1] === String(revision))

const preconditionFailed = (tag: string) => apiError('PRECONDITION_FAILED', { headers: { ETag: tag } })

/** A row may change once more in the second of its last change, and its date stays the same. */
const MIN_AGE_MS = 1000

/**
 * Returns whether a row has not changed since the date in a header; undefined if that is to be ignored. The date of the
 * very second of the last change is a validator only when that change lies a second back (section 8.8.2.2).
 */
function isUnmodifiedSince(updatedAt: string | undefined, date: string): boolean | undefined {
  const since = parseHttpDate(date)
  if (since === undefined || updatedAt === undefined) return undefined
  const changedAt = Date.parse(updatedAt)
  const second = Math.floor(changedAt / 1000)
  return second < since || (second === since && Date.now() - changedAt >= MIN_AGE_MS)
}

/** Returns whether a read has a precondition that needs the current row, which a lagging replica may not have. */
export const needsPrimary = ({ headers }: FastifyRequest): boolean =>
  headers['if-match'] !== undefined || headers['if-unmodified-since'] !== undefined

/**
 * Evaluates the preconditions of a read in the order of section 13.2.2.
 * @param tag the current entity tag. If-Match uses the strong comparison, in which a weak tag never matches
 * @param updatedAt the time of the last change; if undefined, the date headers are ignored
 * @returns whether the response is 304
 * @throws ApiError 412, with the current tag
 */
export function isNotModified(request: FastifyRequest, tag: string, updatedAt?: string): boolean {
  const { headers } = request
  const { 'if-match': match, 'if-unmodified-since': unmodified, 'if-modified-since': modified } = headers
  if (match !== undefined) {
    const tags = parseTags(match)
    if (tags !== '*' && (tag.startsWith('W/') || !tags.includes(tag))) throw preconditionFailed(tag)
  } else if (unmodified !== undefined && isUnmodifiedSince(updatedAt, unmodified) === false) {
    throw preconditionFailed(tag)
  }

  const noneMatch = headers['if-none-match']
  if (noneMatch === undefined)
    return modified !== undefined && isUnmodifiedSince(updatedAt, modified) === true
  const tags = parseTags(noneMatch)
  return tags === '*' || tags.flatMap(listMeanings).includes(toOpaque(tag))
}

/** The headers with the preconditions of a write. */
export type PreconditionHeaders = Pick<
  IncomingHttpHeaders,
  'if-match' | 'if-none-match' | 'if-unmodified-since'
>

/**
 * Reads the preconditions of a write (13.1.1, 13.1.2, 13.1.4).
 * @param required whether the write needs If-Match
 * @param getUpdatedAt returns the time of the last change; undefined to ignore the header with one
 * @returns undefined or a function that checks the current row and throws ApiError 412 with its tag, or 428
 */
export function readPrecondition<R extends { revision: number }>(
  headers: PreconditionHeaders,
  required: boolean,
  { getTag, getUpdatedAt }: { getTag(row: R): string; getUpdatedAt(row: R): string | undefined },
): ((row: R) => void) | undefined {
  const { 'if-match': match, 'if-none-match': noneMatch, 'if-unmodified-since': unmodified } = headers
  const isNone = match === undefined && noneMatch === undefined && unmodified === undefined
  if (isNone && !required) return undefined
  const isMet = (row: R) =>
    (match === undefined
      ? unmodified === undefined || isUnmodifiedSince(getUpdatedAt(row), unmodified) !== false
      : hasRevision(parseTags(match), row.revision)) &&
    (noneMatch === undefined || !hasRevision(parseTags(noneMatch), row.revision))

  return (row) => {
    if (required && match === undefined) throw apiError('PRECONDITION_REQUIRED')
    if (!isMet(row)) throw preconditionFailed(getTag(row))
  }
}

/** Sends a 304. Its headers are those that the 200 would have (section 15.4.5). */
export const sendNotModified = (reply: FastifyReply) => reply.code(304).send()

const removeContentLength: onSendHookHandler = (_request, reply, payload, done) => {
  if (reply.statusCode === 304) reply.removeHeader('content-length')
  done(null, payload)
}

/**
 * Removes the `Content-Length: 0` that Fastify adds to a 304 for HEAD: a 304 has the length of the 200 or none (section
 * 8.6). Fastify adds it in the last hook of its own HEAD routes, so the hook is appended after that one.
 */
async function headNotModified(app: FastifyInstance) {
  app.addHook('onRoute', (route) => {
    if (route.method === 'HEAD') route.onSend = [route.onSend ?? [], removeContentLength].flat()
  })
}

export default fp(headNotModified, { name: 'head-not-modified' })

/** The options of @fastify/etag, which only makes the tag: it compares a single tag exactly, and ignores If-Match. */
export const entityTagOptions: FastifyEtagOptions = { replyWith304: false, hashFn: hashText }

/** Evaluates the preconditions against the tag of a 200, and removes the tags of errors. */
export const compareTag: onSendHookHandler = (request, reply, payload, done) => {
  const tag = reply.getHeader('etag')
  if (reply.statusCode === 200 && typeof tag === 'string') {
    if (!isNotModified(request, tag)) return done(null, payload)
    // It describes content, which a 304 does not have (section 15.4.5).
    reply.code(304).removeHeader('content-type')
    // The hook of Fastify's own HEAD routes runs after this one and does not accept null.
    return done(null, request.method === 'HEAD' ? '' : null)
  }
  if (reply.statusCode !== 412) reply.removeHeader('etag')
  done(null, payload)
}
