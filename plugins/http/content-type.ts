/** Bodies: which media types, how deep, and nothing that two parsers would read differently. */
import { isUtf8 } from 'node:buffer'
import type { Readable } from 'node:stream'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { measureStructure, readNames } from '../../lib/json-scan.ts'
import { createTurns } from '../../lib/turns.ts'
import { apiError } from '../errors/index.ts'
import { readBytes } from './read-body.ts'

const MERGE_PATCH = 'application/merge-patch+json'
const JSON_TYPES = new Set(['application/json', 'application/vnd.api+json', MERGE_PATCH])
/** Characters. Beyond a type and a charset there is nothing that this service reads. */
const MAX_CONTENT_TYPE_LENGTH = 256
/** Bytes of a body without credentials. The longest name, address and password of a sign-up have less than 2 KiB. */
const ANONYMOUS_BODY_LIMIT = 16_384
/** Bytes of a body that is parsed in a turn of its own; up to here, parsing takes less than a millisecond. */
const LARGE_BODY = 16_384
/** Fastify's own. */
const DEFAULT_BODY_LIMIT = 1_048_576
const BYTE_ORDER_MARK = '\ufeff'
/** A body on these would be dropped, and nothing is dropped silently. */
const WITHOUT_BODY = new Set(['GET', 'HEAD', 'DELETE'])

const unreadable = (message: string, cause?: unknown) => apiError('INVALID_REQUEST', { message, cause })
const unsupported = (message: string, headers = {}) =>
  apiError('UNSUPPORTED_MEDIA_TYPE', { message, headers })

/** The media types of the bodies that a method takes, as the value of Accept or Accept-Patch. */
export const bodyTypes = (method: string) =>
  [...JSON_TYPES].filter((type) => type !== MERGE_PATCH || method === 'PATCH').join(', ')

/** The headers of a 415 (RFC 9110, section 15.5.16; RFC 5789, section 2.2). */
const acceptableTypes = (method: string): Record<string, string> => ({
  Accept: bodyTypes(method),
  ...(method === 'PATCH' ? { 'Accept-Patch': bodyTypes(method) } : {}),
})

/** Whether a request says that it has a body. */
export const hasBody = ({ headers }: FastifyRequest) =>
  headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0

/** The charsets in the parameters of a media type. Plain string code, since it is linear in the header's length. */
function readCharsets(parameters: readonly string[]): string[] {
  return parameters.flatMap((parameter) => {
    const equals = parameter.indexOf('=')
    if (equals === -1 || parameter.slice(0, equals).trim() !== 'charset') return []
    const value = parameter.slice(equals + 1).trim()
    const isQuoted = value.length > 1 && value.startsWith('"') && value.endsWith('"')
    return [isQuoted ? value.slice(1, -1) : value]
  })
}

/** @throws ApiError 415 */
function checkType({ headers, method }: FastifyRequest) {
  const { 'content-encoding': encoding, 'content-type': contentType = '' } = headers
  // Fast path for the header that most clients send.
  if (encoding === undefined && contentType === 'application/json') return
  if (encoding !== undefined && encoding.toLowerCase() !== 'identity') {
    throw unsupported('Bodies are taken without a Content-Encoding', { 'Accept-Encoding': 'identity' })
  }
  if (contentType.length > MAX_CONTENT_TYPE_LENGTH) {
    throw unsupported(`Content-Type is longer than ${MAX_CONTENT_TYPE_LENGTH} characters`)
  }
  const [first = '', ...parameters] = contentType.toLowerCase().split(';')
  const type = first.trim()
  if (!JSON_TYPES.has(type)) throw unsupported('The body must be JSON, and Content-Type say so')
  if (type === MERGE_PATCH && method !== 'PATCH') throw unsupported(`${MERGE_PATCH} is for PATCH`)
  if (readCharsets(parameters).some((charset) => charset !== 'utf-8' && charset !== 'utf8')) {
    throw unsupported('The body must be UTF-8')
  }
}

/** @throws ApiError 400 */
function parse(body: Buffer): unknown {
  if (body.length === 0) return undefined
  if (!isUtf8(body)) throw unreadable('The body is not valid UTF-8')
  const text = body.toString('utf8')
  const structure = measureStructure(text)
  if (structure.excess !== undefined) throw unreadable(structure.excess)
  const value = parseJson(text)
  const names = readNames(value)
  if (names.hasForbidden) throw unreadable('The body has a member named __proto__ or constructor')
  if (names.members < structure.members) throw unreadable('An object of the body has a member twice')
  return value
}

/** @throws ApiError 400 */
function parseJson(text: string): unknown {
  try {
    // As editors on Windows write it; RFC 8259 lets a reader pass over it.
    return JSON.parse(text.startsWith(BYTE_ORDER_MARK) ? text.slice(1) : text)
  } catch (error) {
    throw unreadable('The body is not valid JSON', error)
  }
}

/** The rest of the body is not read, so the connection cannot be used again. */
const tooManyChunks = () =>
  apiError('INVALID_REQUEST', {
    message: 'The body is sent in too many small chunks',
    headers: { Connection: 'close' },
  })

const isAnonymous = ({ actor }: FastifyRequest) => actor === null || actor.credential === 'none'

/** All apps of a process share its event loop. */
const inTurn = createTurns()

/**
 * Reads and parses the body of a request.
 * @param bodyLimit in bytes, for requests with credentials
 */
function createBodyParser(bodyLimit: number) {
  const anonymousLimit = Math.min(ANONYMOUS_BODY_LIMIT, bodyLimit)

  return (
    request: FastifyRequest,
    payload: Readable,
    done: (error: Error | null, body?: unknown) => void,
  ) => {
    const takesNone = WITHOUT_BODY.has(request.method)
    const limit = takesNone ? 0 : isAnonymous(request) ? anonymousLimit : bodyLimit
    const tooLarge = () =>
      takesNone
        ? unreadable('This method takes no body')
        : apiError('PAYLOAD_TOO_LARGE', { message: `The body is larger than ${limit} bytes` })
    if (Number(request.headers['content-length'] ?? 0) > limit) return done(tooLarge())

    readBytes(payload, limit, { tooLarge, tooManyChunks }, (error, bytes) => {
      if (error) return done(error)
      const finish = () => {
        let body: unknown
        try {
          body = parse(bytes)
        } catch (cause) {
          return done(cause instanceof Error ? cause : new Error(String(cause)))
        }
        done(null, body)
      }
      if (bytes.length > LARGE_BODY) inTurn(finish)
      else finish()
    })
  }
}

async function content(app: FastifyInstance) {
  // One parser for whatever was declared: the hook below has let through what it can read, and what is empty.
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', createBodyParser(app.initialConfig.bodyLimit ?? DEFAULT_BODY_LIMIT))

  // Before the body is read: what it could not be read as.
  app.addHook('preParsing', (request, reply, payload, done) => {
    if (!hasBody(request)) return done(null, payload)
    // Fastify reads a DELETE's body and leaves those of GET and HEAD alone.
    if (WITHOUT_BODY.has(request.method) && request.method !== 'DELETE') {
      throw unreadable('This method takes no body')
    }
    try {
      if (request.method !== 'DELETE' || request.headers['content-type'] !== undefined) checkType(request)
    } catch (error) {
      reply.headers(acceptableTypes(request.method))
      throw error
    }
    done(null, payload)
  })
}

export default fp(content, { name: 'content', dependencies: ['errors'] })
