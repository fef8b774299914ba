/** What Node's HTTP parser refuses: the envelope by hand, in its turn, and the end of the connection. */
import { channel, subscribe, unsubscribe } from 'node:diagnostics_channel'
import { type IncomingMessage, ServerResponse, STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { getRequestId } from '../../lib/request-id.ts'
import type { FailureCode } from '../../schemas/error.ts'
import { apiError, writeError } from '../errors/index.ts'
import { VENDOR } from '../versioning/accept.ts'
import { type Addressing, versionHeaders } from '../versioning/addresses.ts'
import { securityHeaders } from './security-headers.ts'

/** Milliseconds that a client has to read its answer: a socket destroyed at once may take it along. */
const LINGER = 1_000
/** A request line beyond this is what made the head too large. */
const LONG_LINE = 16_384

type ParserError = Error & { code?: string; rawPacket?: unknown; bytesParsed?: unknown }

const malformed = channel('resource-api:http:malformed')

const ofParser: Record<string, FailureCode> = {
  HPE_HEADER_OVERFLOW: 'HEADERS_TOO_LARGE',
  HPE_CHUNK_EXTENSIONS_OVERFLOW: 'PAYLOAD_TOO_LARGE',
  ERR_HTTP_REQUEST_TIMEOUT: 'REQUEST_TIMEOUT',
}

/** A request line that is sound but for a method that the parser does not know; garbage is none. */
const UNKNOWN_METHOD = /^[\w!#$%&'*+.^`|~-]+ [^ ]+ HTTP\/1\.[01]\r?$/
const TOKEN = /^[\w!#$%&'*+.^`|~-]$/
/** The parser stops within the name of a method; those that it knows are no longer than this. */
const LONGEST_METHOD = 16

/** Whether the line in which the parser stopped is a request's. Others may stand before it in the packet. */
function hasUnknownMethod(packet: Buffer, stoppedAt: number): boolean {
  const isToken = (index: number) => TOKEN.test(String.fromCharCode(packet[index] ?? 0))
  let start = stoppedAt
  while (start > 0 && start > stoppedAt - LONGEST_METHOD && isToken(start - 1)) start -= 1
  const line = packet.subarray(start, start + LONG_LINE)
  const end = line.indexOf('\n')
  return end !== -1 && UNKNOWN_METHOD.test(line.toString('latin1', 0, end))
}

function codeOf({ code = '', rawPacket, bytesParsed }: ParserError): FailureCode {
  if (code === 'HPE_INVALID_METHOD' && Buffer.isBuffer(rawPacket) && typeof bytesParsed === 'number') {
    return hasUnknownMethod(rawPacket, bytesParsed) ? 'NOT_IMPLEMENTED' : 'INVALID_REQUEST'
  }
  const known = ofParser[code] ?? 'INVALID_REQUEST'
  if (known !== 'HEADERS_TOO_LARGE' || !Buffer.isBuffer(rawPacket)) return known
  const end = rawPacket.indexOf('\n')
  const isLongLine = (end === -1 ? rawPacket.length : end) > LONG_LINE
  return isLongLine && /^[A-Z-]+ /.test(rawPacket.toString('latin1', 0, 32)) ? 'URI_TOO_LONG' : known
}

type ReadAddress = Pick<Addressing, 'fallback' | 'of'>

interface Refusal {
  socket: Duplex
  code: FailureCode
  addressing: ReadAddress
  /** Whose body is broken; undefined where the head could not be read, and nothing is known of a version. */
  request?: IncomingMessage | undefined
}

function write({ socket, code, addressing, request }: Refusal) {
  if (!socket.writable) return
  const failure = apiError(code)
  if (malformed.hasSubscribers) malformed.publish({ status: failure.status })
  const requestId = getRequestId(request ?? { headers: {} })
  const address = request && addressing.of(request)
  const { representation, vendor } = address ?? { representation: addressing.fallback, vendor: false }
  const body = writeError(representation.error, failure, requestId)
  const type = vendor ? `${VENDOR};version=${representation.version}` : 'application/json; charset=utf-8'
  socket.end(
    [
      `HTTP/1.1 ${failure.status} ${STATUS_CODES[failure.status]}`,
      `Date: ${new Date().toUTCString()}`,
      `Content-Type: ${type}`,
      `Content-Length: ${Buffer.byteLength(body)}`,
      'Cache-Control: no-store',
      `X-Request-Id: ${requestId}`,
      ...Object.entries({ ...securityHeaders, ...(address && versionHeaders(address)) }).map(
        ([name, value]) => `${name}: ${value}`,
      ),
      'Connection: close',
      '',
      body,
    ].join('\r\n'),
  )
  setTimeout(() => socket.destroy(), LINGER).unref()
}

/**
 * In the place of a reply that is over, as is its request. A connection that kept them until the next one comes would
 * keep them beyond the collections of young garbage: of a thousand connections, that is half of the collector's work.
 */
const OVER = Symbol('over')

/** What Node publishes when it has handed over the last of a reply. */
const FINISHED = 'http.server.response.finish'

const replyIn = (message: unknown): ServerResponse | undefined =>
  typeof message === 'object' &&
  message !== null &&
  'response' in message &&
  message.response instanceof ServerResponse
    ? message.response
    : undefined

/** The two ends of one matter: a handler that Fastify takes as an option, and a plugin that tells it who waits. */
export function createWire(addressing: ReadAddress) {
  /** The latest reply begun on a socket. */
  const latest = new WeakMap<Duplex, ServerResponse | typeof OVER>()
  const ended = new WeakSet<Duplex>()

  const clientErrorHandler = (error: ParserError, socket: Socket) => {
    if (error.code === 'ECONNRESET') {
      socket.destroy()
      return
    }
    // What still arrives after the first error is an error each time.
    if (ended.has(socket)) return
    ended.add(socket)
    const reply = latest.get(socket)
    // The head of a request whose body is broken was read; of the next request's nothing is known.
    const isOfBody = reply !== undefined && reply !== OVER && !reply.req.complete
    const request = isOfBody ? reply.req : undefined
    const answer = () => write({ socket, code: codeOf(error), addressing, request })
    if (!reply) answer()
    // It may be the last, and its socket is only about to end: then nothing is written any more. One that was over
    // before its request was has not been forgotten.
    else if (reply === OVER || (reply.req.complete && reply.writableFinished)) setImmediate(answer)
    // Whole requests came before the broken one: theirs are the first replies that the client expects.
    else if (reply.req.complete) reply.once('close', answer)
    // The broken one is answered already, from its head alone.
    else if (reply.headersSent) socket.destroySoon()
    else if (reply.socket) answer()
    else reply.once('socket', answer)
  }

  const plugin = async (app: FastifyInstance) => {
    // Before Fastify's own listener and at once: the next request's error may come before any hook has run.
    app.server.prependListener('request', (request, reply) => latest.set(request.socket, reply))
    const forget = (message: unknown) => {
      const reply = replyIn(message)
      if (reply?.req.complete && latest.get(reply.req.socket) === reply) latest.set(reply.req.socket, OVER)
    }
    subscribe(FINISHED, forget)
    app.addHook('onClose', async () => {
      unsubscribe(FINISHED, forget)
    })
    // This is no proxy; without a listener Node would hang up without a word.
    app.server.on('connect', (_request, socket) => write({ socket, code: 'INVALID_REQUEST', addressing }))
  }

  return { clientErrorHandler, plugin: fp(plugin, { name: 'wire' }) }
}
