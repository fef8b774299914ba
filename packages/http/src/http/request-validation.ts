/**
 * Rejects requests that Node's parser accepts: with headers that servers and proxies interpret differently, with a method
 * that HTTP does not define, with a query that is too long, or for an unknown path.
 */
import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { apiError } from '@resource-api/api/errors'
import { isHttpMethod } from '@resource-api/api/requests'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'

const MAX_HEADERS_BYTES = 16_384
/** Characters, without the question mark. */
const MAX_QUERY_LENGTH = 8_192
/** Bytes of a header line besides its name and value: ': ' and CRLF. */
const SEPARATOR_BYTES = 4

/** Headers that must not be repeated: Node keeps the first and drops the rest, while a proxy may use the last. */
const SINGLE_HEADERS = new Set([
  ...['host', 'authorization', 'x-api-key', 'content-type', 'idempotency-key'],
  ...['if-modified-since', 'if-unmodified-since'],
])

const HOST = /^(?:[\w.~!$&'()*+,;=%-]*|\[[\dA-Fa-f:.]+\])(?::\d*)?$/

const invalidRequest = (message: string) => apiError('INVALID_REQUEST', { message })

/** @throws ApiError 400, 431 */
function checkHeaders({ httpVersionMajor, httpVersionMinor, rawHeaders, headers }: IncomingMessage) {
  if (httpVersionMajor !== 1) throw invalidRequest('Unsupported HTTP version; use HTTP/1.1')
  let bytes = 0
  const seen: string[] = []
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i]?.toLowerCase() ?? ''
    bytes += name.length + (rawHeaders[i + 1]?.length ?? 0) + SEPARATOR_BYTES
    if (!SINGLE_HEADERS.has(name)) continue
    if (seen.includes(name)) throw invalidRequest(`The header ${name} must not be repeated`)
    seen.push(name)
  }
  if (bytes > MAX_HEADERS_BYTES) throw apiError('HEADERS_TOO_LARGE')
  const { host, expect, 'transfer-encoding': coding } = headers
  // Node silently reads `,chunked` as chunked and an empty value as no coding, where a proxy in front may decide
  // otherwise: that difference allows request smuggling (RFC 9112, section 11.2).
  if (coding !== undefined && coding.toLowerCase() !== 'chunked') {
    throw invalidRequest('Unsupported Transfer-Encoding; only chunked is accepted')
  }
  if (coding !== undefined && httpVersionMinor === 0) {
    throw invalidRequest('Transfer-Encoding requires HTTP/1.1')
  }
  if (host === undefined ? httpVersionMinor > 0 : !HOST.test(host)) {
    throw invalidRequest('The request requires one valid Host header')
  }
  // For 100-continue itself, Node has already sent "100 Continue".
  if (expect !== undefined && expect.toLowerCase() !== '100-continue') {
    throw invalidRequest('Unsupported Expect header; only 100-continue is accepted')
  }
}

/**
 * Node.js reads the address from the operating system on the first access to `socket.remoteAddress`, and caches it. After
 * the client has reset the connection, the operating system has none, while pipelined requests of that connection still
 * wait to be processed: rate limits counted them under no address, and each failed with 500 and two log lines.
 */
function cacheAddress(socket: Socket): void {
  // The connection was reset before it was accepted, so no response can be sent.
  if (socket.remoteAddress === undefined) socket.destroy()
}

async function requestValidation(app: FastifyInstance) {
  /** Connections on which a request was rejected: bytes that follow may be part of that request. */
  const rejected = new WeakSet<Socket>()

  // Synchronous, since Node emits pipelined requests before any promise settles.
  app.addHook('onRequest', (request, reply, done) => {
    const { raw } = request
    try {
      if (rejected.has(raw.socket)) {
        throw invalidRequest('An earlier request on this connection was rejected; use a new connection')
      }
      checkHeaders(raw)
    } catch (error) {
      rejected.add(raw.socket)
      reply.header('Connection', 'close')
      throw error
    }
    // A method that HTTP does not define has no route.
    if (request.is404 && !isHttpMethod(request.method)) throw apiError('NOT_IMPLEMENTED')
    if (app.addressing.getAddress(raw).query.length > MAX_QUERY_LENGTH + '?'.length) {
      throw apiError('URI_TOO_LONG', {
        message: `The query string is longer than ${MAX_QUERY_LENGTH} characters`,
      })
    }
    // In this hook, since a not-found handler would run after the body was read. With CORS, `OPTIONS *` has a route, the
    // one of @fastify/cors for all paths.
    if (request.is404 || request.originalUrl === '*') app.answerUnrouted(request, reply)
    else done()
  })
  const { server } = app
  // By default Node silently drops all headers after the first 1000, possibly a second Host or an API key. Their number
  // is bounded here by their total size.
  server.maxHeadersCount = 0
  // Without a listener, Node responds 417 without a body.
  server.on('checkExpectation', (request, response) => server.emit('request', request, response))
  // With TLS, requests have the TLS socket, which exists after the handshake.
  server.on('connection', cacheAddress).on('secureConnection', cacheAddress)
}

export default fp(requestValidation, { name: 'request-validation', dependencies: ['errors'] })
