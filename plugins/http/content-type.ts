/** Parses JSON bodies: checks the media type, size and structure, and rejects what parsers read differently. */
import { isUtf8 } from 'node:buffer'
import type { Readable } from 'node:stream'
import { setImmediate as nextIteration } from 'node:timers/promises'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import createLimit from 'p-limit'
import { measureStructure, readNames } from '../../lib/json-scan.ts'
import { apiError } from '../errors/index.ts'
import { readBytes } from './read-body.ts'

const MERGE_PATCH = 'application/merge-patch+json'
const JSON_TYPES = new Set(['application/json', 'application/vnd.api+json', MERGE_PATCH])
/** Characters. Only the media type and the charset are read. */
const MAX_CONTENT_TYPE_LENGTH = 256
/** Bytes of a body without credentials. A sign-up with the longest name, email and password takes less than 2 KiB. */
const ANONYMOUS_BODY_LIMIT = 16_384
/**
 * Bytes. Larger bodies are parsed one at a time, each in its own iteration of the event loop. Parsing a smaller one
 * takes less than a millisecond.
 */
const LARGE_BODY_LENGTH = 16_384
/** Fastify's default. */
const DEFAULT_BODY_LIMIT = 1_048_576
const BYTE_ORDER_MARK = '\ufeff'
/** Methods whose body would be ignored. A body is rejected instead, since no input is ignored silently. */
const BODILESS_METHODS = new Set(['GET', 'HEAD', 'DELETE'])

const malformedBody = (message: string, cause?: unknown) => apiError('INVALID_REQUEST', { message, cause })
const unsupportedType = (message: string, headers = {}) =>
  apiError('UNSUPPORTED_MEDIA_TYPE', { message, headers })

/** Returns the media types of the bodies that a method accepts, as the value of Accept or Accept-Patch. */
export const getBodyTypes = (method: string) =>
  [...JSON_TYPES].filter((type) => type !== MERGE_PATCH || method === 'PATCH').join(', ')

/** Returns the headers of a 415 (RFC 9110, section 15.5.16; RFC 5789, section 2.2). */
const getAcceptHeaders = (method: string): Record<string, string> => ({
  Accept: getBodyTypes(method),
  ...(method === 'PATCH' ? { 'Accept-Patch': getBodyTypes(method) } : {}),
})

/** Whether the headers of a request announce a body. */
export const hasBody = ({ headers }: FastifyRequest) =>
  headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0

/** Returns the charsets in the parameters of a media type, in time linear in the header's length. */
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
    throw unsupportedType('Unsupported Content-Encoding; send the body uncompressed', {
      'Accept-Encoding': 'identity',
    })
  }
  if (contentType.length > MAX_CONTENT_TYPE_LENGTH) {
    throw unsupportedType(`Content-Type is longer than ${MAX_CONTENT_TYPE_LENGTH} characters`)
  }
  const [first = '', ...parameters] = contentType.toLowerCase().split(';')
  const type = first.trim()
  if (!JSON_TYPES.has(type)) throw unsupportedType('Unsupported Content-Type; use application/json')
  if (type === MERGE_PATCH && method !== 'PATCH') {
    throw unsupportedType(`${MERGE_PATCH} is only accepted for PATCH; use application/json`)
  }
  if (readCharsets(parameters).some((charset) => charset !== 'utf-8' && charset !== 'utf8')) {
    throw unsupportedType('Unsupported charset; the body must be encoded in UTF-8')
  }
}

/** @throws ApiError 400 */
function parse(body: Buffer): unknown {
  if (body.length === 0) return undefined
  if (!isUtf8(body)) throw malformedBody('The body is not valid UTF-8')
  const text = body.toString('utf8')
  const structure = measureStructure(text)
  if (structure.excess !== undefined) throw malformedBody(structure.excess)
  const value = parseJson(text)
  const names = readNames(value)
  if (names.hasForbidden)
    throw malformedBody('The body must not contain a field named __proto__ or constructor')
  if (names.members < structure.members) throw malformedBody('An object in the body has a duplicate field')
  return value
}

/** @throws ApiError 400 */
function parseJson(text: string): unknown {
  try {
    // Editors on Windows add a byte order mark, which a parser may ignore (RFC 8259, section 8.1).
    return JSON.parse(text.startsWith(BYTE_ORDER_MARK) ? text.slice(1) : text)
  } catch (error) {
    throw malformedBody('The body is not valid JSON', error)
  }
}

const bodyNotAllowed = ({ method }: FastifyRequest) =>
  malformedBody(`A ${method} request must not have a body`)

/**
 * Of all apps of the process, since they share its event loop: 20 bodies of 1 MiB that arrive together would otherwise
 * block other connections for the sum of their times.
 */
const limitLargeBodies = createLimit(1)

/**
 * Creates Fastify's content type parser, which reads and parses the body of a request.
 * @param bodyLimit in bytes, for requests with credentials
 */
function createBodyParser(bodyLimit: number) {
  const anonymousLimit = Math.min(ANONYMOUS_BODY_LIMIT, bodyLimit)

  return async (request: FastifyRequest, payload: Readable): Promise<unknown> => {
    const { actor, headers, method } = request
    const isBodiless = BODILESS_METHODS.has(method)
    const isAnonymous = actor === null || actor.credential === 'none'
    const limit = isBodiless ? 0 : isAnonymous ? anonymousLimit : bodyLimit
    const tooLarge = () =>
      isBodiless
        ? bodyNotAllowed(request)
        : apiError('PAYLOAD_TOO_LARGE', { message: `The body is larger than ${limit} bytes` })
    if (Number(headers['content-length'] ?? 0) > limit) throw tooLarge()

    const bytes = await readBytes(payload, limit, tooLarge)
    if (bytes.length > LARGE_BODY_LENGTH) await limitLargeBodies(() => nextIteration())
    // The time to answer begins when the body has arrived.
    request.timeout?.refresh()
    return parse(bytes)
  }
}

async function contentTypeParser(app: FastifyInstance) {
  // One parser for all media types: the hook below rejects the unsupported ones of requests with a body.
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', createBodyParser(app.initialConfig.bodyLimit ?? DEFAULT_BODY_LIMIT))

  // Rejects unsupported media types before the body is read.
  app.addHook('preParsing', (request, reply, payload, done) => {
    if (!hasBody(request)) return done(null, payload)
    // Fastify does not read the body of GET and HEAD, but does read that of DELETE, which the parser above rejects.
    if (BODILESS_METHODS.has(request.method) && request.method !== 'DELETE') throw bodyNotAllowed(request)
    try {
      if (request.method !== 'DELETE' || request.headers['content-type'] !== undefined) checkType(request)
    } catch (error) {
      reply.headers(getAcceptHeaders(request.method))
      throw error
    }
    done(null, payload)
  })
}

export default fp(contentTypeParser, { name: 'content-type', dependencies: ['errors'] })
