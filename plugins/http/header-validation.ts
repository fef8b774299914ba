/** The head of a request: what Node's parser lets through and no two servers read alike is refused. */
import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { apiError } from '../errors/index.ts'

const MOST_BYTES = 16_384
/** ': ' and the end of the line. */
const AROUND = 4

/** Node keeps the first of these and drops the rest; a proxy in front may have kept the last. */
const ONCE = new Set([
  'host',
  'authorization',
  'x-api-key',
  'content-type',
  'idempotency-key',
  'if-modified-since',
  'if-unmodified-since',
])

const HOST = /^(?:[\w.~!$&'()*+,;=%-]*|\[[\dA-Fa-f:.]+\])(?::\d*)?$/

const refused = (message: string) => apiError('INVALID_REQUEST', { message })

/** @throws ApiError 400, 431 */
function checkFields(raw: IncomingMessage) {
  const { rawHeaders } = raw
  let bytes = 0
  const seen: string[] = []
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i]?.toLowerCase() ?? ''
    bytes += name.length + (rawHeaders[i + 1]?.length ?? 0) + AROUND
    if (!ONCE.has(name)) continue
    if (seen.includes(name)) throw refused(`The header ${name} is given more than once`)
    seen.push(name)
  }
  if (bytes > MOST_BYTES) throw apiError('HEADERS_TOO_LARGE')
}

/**
 * Node reads `,chunked` as chunks, an empty one as none, and both without a word: a proxy in front may not.
 * @throws ApiError 400
 */
function checkCoding({ headers, httpVersionMinor }: IncomingMessage) {
  const coding = headers['transfer-encoding']
  if (coding === undefined) return
  if (coding.toLowerCase() !== 'chunked' || httpVersionMinor === 0) {
    throw refused('Of transfer codings, only chunked is known, in HTTP/1.1')
  }
}

/** @throws ApiError 400, 431 */
function check(raw: IncomingMessage) {
  if (raw.httpVersionMajor !== 1) throw refused('The request is not HTTP/1.1')
  checkFields(raw)
  checkCoding(raw)
  const { host, expect } = raw.headers
  if (host === undefined ? raw.httpVersionMinor > 0 : !HOST.test(host)) {
    throw refused('The request needs one valid Host')
  }
  // Node has said "100 Continue" by itself.
  if (expect !== undefined && expect.toLowerCase() !== '100-continue') {
    throw refused('Of expectations, only 100-continue is known')
  }
}

async function head(app: FastifyInstance) {
  /** Connections on which a head was refused: what comes behind it may be meant as a part of it. */
  const ended = new WeakSet<Socket>()

  // Not async: Node hands over what was pipelined behind it before any promise is kept.
  app.addHook('onRequest', ({ raw }, reply, done) => {
    try {
      if (ended.has(raw.socket)) throw refused('The request came behind one that was refused')
      check(raw)
    } catch (error) {
      ended.add(raw.socket)
      reply.header('Connection', 'close')
      throw error
    }
    done()
  })
  // Node drops what comes after the first thousand without a word, a second Host or a key among them. What bounds their
  // number here is what bounds their bytes.
  app.server.maxHeadersCount = 0
  // Without a listener Node answers 417 by itself, without a body.
  app.server.on('checkExpectation', (request, response) => app.server.emit('request', request, response))
}

export default fp(head, { name: 'head', dependencies: ['errors'] })
