/**
 * Reads and parses JSON bodies: checks the media type, size and structure, and rejects what parsers read differently. Those of
 * imports are passed on as streams.
 */
import { isUtf8 } from 'node:buffer'
import type { IncomingMessage } from 'node:http'
import type { Readable } from 'node:stream'
import { setImmediate as nextIteration } from 'node:timers/promises'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import createLimit from 'p-limit'
import { ApiError, apiError } from '../errors/errors.ts'
import { measureStructure, readNames } from './json-scan.ts'
import { findSyntaxError } from './json-syntax.ts'
import { disconnected } from './lifetime.ts'

const MERGE_PATCH = 'application/merge-patch+json'
const JSON_TYPES = new Set(['application/json', 'application/vnd.api+json', MERGE_PATCH])
/** The media types of imports: a resource in each line. */
const ROW_TYPES = ['application/x-ndjson', 'text/csv'] as const

export type RowType = (typeof ROW_TYPES)[number]

/** A media type (RFC 9110, section 8.3.1), with or without parameters. */
const WELL_FORMED_TYPE = /^\s*[\w!#$%&'*+.^`|~-]+\/[\w!#$%&'*+.^`|~-]+\s*(?:;|$)/
/** US-ASCII is a part of UTF-8. */
const UTF8_CHARSETS = new Set(['utf-8', 'utf8', 'us-ascii'].flatMap((name) => [name, `"${name}"`]))
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
/**
 * A body may have this many chunks plus one for every 64 bytes. A chunk takes 2 us in Node's parser and here, whatever
 * its size, so that 1 MiB in chunks of one byte would take as long as 50 requests.
 */
const BASE_CHUNK_COUNT = 1_000
const MIN_BYTES_PER_CHUNK = 64
const BYTE_ORDER_MARK = '\ufeff'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Whether the route reads the streams of imports too. */
    isImport?: boolean
  }
}

const malformedBody = (message: string, cause?: unknown) => apiError('INVALID_REQUEST', { message, cause })
/** The error of a method whose body would be ignored: no input is ignored silently. */
const bodyNotAllowed = ({ method }: FastifyRequest) =>
  malformedBody(`A ${method} request must not have a body`)

/** Returns the media types of the bodies that a method accepts, as the value of Accept or Accept-Patch. */
export const getBodyTypes = (method: string) =>
  [...JSON_TYPES].filter((type) => type !== MERGE_PATCH || method === 'PATCH').join(', ')

/** Returns the headers of a 415 (RFC 9110, section 15.5.16; RFC 5789, section 2.2). */
const getAcceptHeaders = ({ method, routeOptions }: FastifyRequest): Record<string, string> => ({
  Accept: [getBodyTypes(method), ...(routeOptions.config.isImport ? ROW_TYPES : [])].join(', '),
  ...(method === 'PATCH' ? { 'Accept-Patch': getBodyTypes(method) } : {}),
})

/** Whether the headers of a request announce a body. */
export const hasBody = ({ headers }: Pick<IncomingMessage, 'headers'>) =>
  headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0

/** Returns whether a parameter of a media type names a charset other than UTF-8. */
function isForeignCharset(parameter: string): boolean {
  const [name = '', ...value] = parameter.split('=')
  return name.trim() === 'charset' && value.length > 0 && !UTF8_CHARSETS.has(value.join('=').trim())
}

/** Returns whether a parameter of `text/csv` says that the first line is a row (RFC 4180, section 3). */
const isWithoutHeader = (parameter: string) => /^ *header *= *"?absent"? *$/.test(parameter)

const getMediaType = (contentType: string) => contentType.split(';', 1)[0]?.trim().toLowerCase() ?? ''

/** Returns the media type of an import; undefined for any other request. */
export function getRowType(request: FastifyRequest): RowType | undefined {
  const { 'content-type': contentType = '' } = request.headers
  if (contentType === 'application/json') return undefined
  const type = ROW_TYPES.find((each) => each === getMediaType(contentType))
  // Fastify creates the object of the options at each access.
  return type && request.routeOptions.config.isImport ? type : undefined
}

/** Returns the error of a body that cannot be read because of its type or coding; undefined if there is none. */
function findTypeError(request: FastifyRequest): ApiError | undefined {
  const { headers, method } = request
  const { 'content-encoding': encoding, 'content-type': contentType = '' } = headers
  // Fast path for the header that most clients send.
  if (encoding === undefined && contentType === 'application/json') return undefined
  const unsupported = (message: string, others = {}) =>
    apiError('UNSUPPORTED_MEDIA_TYPE', { message, headers: { ...getAcceptHeaders(request), ...others } })
  if (encoding !== undefined && !/^(?:identity)?$/i.test(encoding)) {
    const acceptEncoding = { 'Accept-Encoding': 'identity' }
    return unsupported('Unsupported Content-Encoding; send the body uncompressed', acceptEncoding)
  }
  if (contentType.length > MAX_CONTENT_TYPE_LENGTH) {
    return unsupported(`Content-Type is longer than ${MAX_CONTENT_TYPE_LENGTH} characters`)
  }
  const [, ...parameters] = contentType.toLowerCase().split(';')
  const type = getMediaType(contentType)
  if (!JSON_TYPES.has(type) && !getRowType(request))
    return unsupported('Unsupported Content-Type; use application/json')
  if (type === MERGE_PATCH && method !== 'PATCH') {
    return unsupported(`${MERGE_PATCH} is only accepted for PATCH; use application/json`)
  }
  if (type === 'text/csv' && parameters.some(isWithoutHeader)) {
    return unsupported('Unsupported header=absent; the first line of the CSV must name the columns')
  }
  if (parameters.some(isForeignCharset)) {
    return unsupported('Unsupported charset; the body must be encoded in UTF-8')
  }
  return undefined
}

/** Returns whether a body arrives in smaller chunks than any client that is not malicious sends. */
export const isFragmented = (chunks: number, length: number): boolean =>
  chunks > BASE_CHUNK_COUNT + length / MIN_BYTES_PER_CHUNK

export const FRAGMENTED_MESSAGE = 'The body is sent in too many small chunks; send fewer, larger ones'

/**
 * Reads a body of at most `limit` bytes into one buffer that doubles when it is full. A list of
 * 1,000,000 chunks of one byte would use a hundred bytes for each.
 */
function readBytes(payload: Readable, limit: number, tooLarge: () => Error): Promise<Buffer> {
  let bytes = Buffer.alloc(0)
  let length = 0
  let chunks = 0
  return new Promise((resolve, reject) => {
    // A stream that is destroyed emits nothing more.
    if (payload.destroyed) return reject(disconnected)
    const abort = () => finish(disconnected)
    const finish = (error?: Error) => {
      payload.off('data', onData).off('end', finish).off('error', finish).off('close', abort)
      if (error) reject(error)
      else resolve(bytes.subarray(0, length))
    }
    const onData = (chunk: Buffer) => {
      const needed = length + chunk.length
      chunks++
      if (needed > limit) return finish(tooLarge())
      if (isFragmented(chunks, needed)) {
        // A full buffer makes the stream pause the socket: of 1 MiB in chunks of one byte, Node parses 64 KiB, not all.
        payload.pause()
        payload.unshift(Buffer.alloc(payload.readableHighWaterMark))
        // The rest of the body is not read.
        const headers = { Connection: 'close' }
        return finish(apiError('INVALID_REQUEST', { message: FRAGMENTED_MESSAGE, headers }))
      }
      if (needed > bytes.length) {
        const grown = Buffer.allocUnsafe(Math.min(limit, Math.max(needed, 2 * bytes.length)))
        bytes.copy(grown, 0, 0, length)
        bytes = grown
      }
      chunk.copy(bytes, length)
      length = needed
    }
    payload.on('data', onData).on('end', finish).on('error', finish).on('close', abort)
  })
}

/** @throws ApiError 400 */
function parseBody(body: Buffer): unknown {
  if (body.length === 0) return undefined
  if (!isUtf8(body)) throw malformedBody('The body is not valid UTF-8')
  return parseJson(body.toString('utf8'))
}

/**
 * Parses a JSON text with the limits of bodies.
 * @param subject what the messages call the text
 * @throws ApiError 400
 */
export function parseJson(text: string, subject = 'body'): unknown {
  const structure = measureStructure(text, subject)
  if (structure.excess !== undefined) throw malformedBody(structure.excess)
  // Editors on Windows add a byte order mark, which a parser may ignore (RFC 8259, section 8.1).
  const json = text.startsWith(BYTE_ORDER_MARK) ? text.slice(1) : text
  let value: unknown
  try {
    value = JSON.parse(json)
  } catch (error) {
    const place = findSyntaxError(json)
    const line = subject === 'body' ? `line ${place?.line}, ` : ''
    const where = place ? `; see ${line}column ${place.column}` : ''
    throw malformedBody(`The ${subject} is not valid JSON${where}`, error)
  }
  const names = readNames(value)
  if (names.hasForbidden)
    throw malformedBody(`The ${subject} must not contain a field named __proto__ or constructor`)
  if (names.members < structure.members)
    throw malformedBody(`An object in the ${subject} has a duplicate field`)
  return value
}

/**
 * Of all apps of the process, since they share its event loop: 20 bodies of 1 MiB that arrive together would otherwise
 * block other connections for the sum of their times.
 */
const limitLargeBodies = createLimit(1)

/** Creates Fastify's content type parser. @param bodyLimit in bytes, for requests with credentials */
function createBodyParser(bodyLimit: number) {
  const anonymousLimit = Math.min(ANONYMOUS_BODY_LIMIT, bodyLimit)

  return async (request: FastifyRequest, payload: Readable): Promise<unknown> => {
    const { actor, headers, method } = request
    const refusal = method === 'DELETE' ? bodyNotAllowed(request) : findTypeError(request)
    if (!refusal && getRowType(request)) return payload
    const isAnonymous = actor === null || actor.credential === 'none'
    const limit = refusal ? 0 : isAnonymous ? anonymousLimit : bodyLimit
    const refuse = () =>
      refusal ?? apiError('PAYLOAD_TOO_LARGE', { message: `The body is larger than ${limit} bytes` })
    if (Number(headers['content-length'] ?? 0) > limit) throw refuse()

    const bytes = await readBytes(payload, limit, refuse)
    if (bytes.length > LARGE_BODY_LENGTH) await limitLargeBodies(() => nextIteration())
    // The time to answer begins when the body has arrived.
    request.timeout?.refresh()
    return parseBody(bytes)
  }
}

async function contentTypeParser(app: FastifyInstance) {
  const parse = createBodyParser(app.initialConfig.bodyLimit ?? DEFAULT_BODY_LIMIT)
  /** Requests with a refused body, whose connections stay open. */
  const refused = new WeakSet<FastifyRequest>()
  // One parser for all media types: it refuses the unsupported ones.
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', (request: FastifyRequest, payload: Readable) =>
    parse(request, payload).catch((error) => {
      if (!(error instanceof ApiError && error.headers.Connection)) refused.add(request)
      throw error
    }),
  )
  // Fastify closes the connection after an error of the parser. A client that is still sending then loses the response, and
  // nginx, which responds 502 instead, sends the process no other request for `fail_timeout`. So Node.js discards the rest
  // of the body as it arrives, at most for `requestTimeout`, and as much as discarded-bodies.ts permits.
  app.addHook('onError', (request, reply, _error, done) => {
    if (refused.has(request)) reply.removeHeader('connection')
    done()
  })

  app.addHook('preParsing', (request, _reply, payload, done) => {
    const { headers, method } = request
    const { 'content-type': type } = headers
    // Fastify responds 415 to a malformed type even if there is no body. Without a type, the parser above decides.
    if (type !== undefined && !WELL_FORMED_TYPE.test(type)) headers['content-type'] = undefined
    // Fastify does not read the body of GET and HEAD.
    if ((method !== 'GET' && method !== 'HEAD') || !hasBody(request)) return done(null, payload)
    if (headers['transfer-encoding'] === undefined) throw bodyNotAllowed(request)
    // Proxies that translate HTTP/2 may send a body of no chunk (Envoy, Linkerd), which is none.
    const onEmpty = () => {
      request.timeout?.refresh()
      done(null, payload)
    }
    readBytes(payload, 0, () => bodyNotAllowed(request)).then(onEmpty, done)
  })
}

export default fp(contentTypeParser, { name: 'content-type', dependencies: ['errors'] })
