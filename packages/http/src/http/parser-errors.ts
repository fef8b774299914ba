/** Responds to requests that Node's HTTP parser rejects, in the order of the requests, and closes the connection. */
import { type IncomingMessage, STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { apiError, type FailureCode } from '@resource-api/api/errors'
import { getLatestResponse, startLifetime } from '@resource-api/api/requests'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { getRequestId } from '../lib/request-id.ts'
import { buildErrorResponse, malformedChannel } from './responses-without-hooks.ts'
import { isUnlimited } from './timeouts.ts'

/** Time for the client to read the response: destroying the socket immediately may discard it. */
const CLOSE_DELAY_MS = 1_000
/** Bytes. If the headers are too large because of a longer request line, the response is 414 instead of 431. */
const MAX_REQUEST_LINE_LENGTH = 16_384

type ParserError = Error & { code?: string; rawPacket?: unknown; bytesParsed?: unknown }

const codesByParserError: Record<string, FailureCode> = {
  HPE_HEADER_OVERFLOW: 'HEADERS_TOO_LARGE',
  HPE_CHUNK_EXTENSIONS_OVERFLOW: 'PAYLOAD_TOO_LARGE',
  ERR_HTTP_REQUEST_TIMEOUT: 'REQUEST_TIMEOUT',
}

/** A request line that is valid except that the parser may not know the method. */
const REQUEST_LINE = /^[\w!#$%&'*+.^`|~-]+ [^ ]+ HTTP\/1\.[01]\r?$/
const TOKEN_CHARACTER = /^[\w!#$%&'*+.^`|~-]$/
/** The parser stops within the name of the method. The names that it knows are not longer than this. */
const MAX_METHOD_LENGTH = 16

/**
 * Whether the parser stopped in a valid request line, because of its method.
 * @param packet may hold other requests before that line
 * @param stoppedAt the index of the byte at which the parser stopped
 */
function hasUnknownMethod(packet: Buffer, stoppedAt: number): boolean {
  const isToken = (index: number) => TOKEN_CHARACTER.test(String.fromCharCode(packet[index] ?? 0))
  let start = stoppedAt
  while (start > 0 && start > stoppedAt - MAX_METHOD_LENGTH && isToken(start - 1)) start -= 1
  const line = packet.subarray(start, start + MAX_REQUEST_LINE_LENGTH)
  const end = line.indexOf('\n')
  return end !== -1 && REQUEST_LINE.test(line.toString('latin1', 0, end))
}

/** Whether a packet begins with a request line that is longer than all headers may be. */
function hasLongRequestLine(packet: Buffer): boolean {
  const end = packet.indexOf('\n')
  const isLong = (end === -1 ? packet.length : end) > MAX_REQUEST_LINE_LENGTH
  return isLong && /^[A-Z-]+ /.test(packet.toString('latin1', 0, 32))
}

function getFailureCode({ code = '', rawPacket, bytesParsed }: ParserError): FailureCode {
  const packet = Buffer.isBuffer(rawPacket) ? rawPacket : undefined
  if (code === 'HPE_INVALID_METHOD' && packet && typeof bytesParsed === 'number') {
    return hasUnknownMethod(packet, bytesParsed) ? 'NOT_IMPLEMENTED' : 'INVALID_REQUEST'
  }
  if (code === 'HPE_HEADER_OVERFLOW' && packet && hasLongRequestLine(packet)) return 'URI_TOO_LONG'
  return codesByParserError[code] ?? 'INVALID_REQUEST'
}

type App = Pick<FastifyInstance, 'addressing' | 'getHelpLink'>

/**
 * Writes an error response to the socket and closes it.
 * @param request the one whose body is invalid. Undefined if the headers are, so that the API version is not known
 */
function writeResponse(app: App, socket: Duplex, code: FailureCode, request?: IncomingMessage) {
  if (!socket.writable) return
  const { addressing } = app
  const error = apiError(code)
  malformedChannel.publish({ status: error.status })
  const unknown = { isVersioned: false, representation: addressing.fallback, vendor: false }
  const address = request ? addressing.getAddress(request) : unknown
  const { headers, body } = buildErrorResponse(app, error, address, getRequestId(request ?? { headers: {} }))
  socket.end(
    [
      `HTTP/1.1 ${error.status} ${STATUS_CODES[error.status]}`,
      `Date: ${new Date().toUTCString()}`,
      ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
      'Connection: close',
      '',
      body,
    ].join('\r\n'),
  )
  setTimeout(() => socket.destroy(), CLOSE_DELAY_MS).unref()
}

/** Creates Fastify's `clientErrorHandler` option, for which the plugin below starts the lifetime of each request. */
export function createClientErrorHandler(getApp: () => App) {
  const rejected = new WeakSet<Duplex>()

  return (error: ParserError, socket: Socket) => {
    if (error.code === 'ECONNRESET') {
      socket.destroy()
      return
    }
    const latest = getLatestResponse(socket)?.req
    if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT' && latest && isUnlimited(latest)) return
    // After the first error, the parser reports one for each further packet.
    if (rejected.has(socket)) return
    rejected.add(socket)
    const response = getLatestResponse(socket)
    // If the latest request is incomplete, its body is invalid. Otherwise the headers of the next request are.
    const request = response?.req.complete === false ? response.req : undefined
    const sendResponse = () => writeResponse(getApp(), socket, getFailureCode(error), request)
    if (response === undefined) sendResponse()
    // After a response with `Connection: close`, the socket is about to end. `setImmediate` lets it end, so that nothing
    // is written. A response that finished before its request did is still there.
    else if (response === null || (response.req.complete && response.writableFinished))
      setImmediate(sendResponse)
    // The responses to complete pipelined requests come first.
    else if (response.req.complete) response.once('close', sendResponse)
    // The invalid request was already answered, before its body was read.
    else if (response.headersSent) socket.destroySoon()
    else if (response.socket) sendResponse()
    else response.once('socket', sendResponse)
  }
}

async function parserErrors(app: FastifyInstance) {
  const { server } = app
  // Synchronous and before Fastify's own listener: the error of the next request may come before any hook has run.
  server.prependListener('request', startLifetime)
  // The service is not a proxy. Without a listener, Node closes the connection without a response.
  server.on('connect', (_request, socket) => writeResponse(app, socket, 'INVALID_REQUEST'))
}

export default fp(parserErrors, { name: 'parser-errors' })
