/** Bodies: which media types, how deep, and nothing that two parsers would read differently. */
import { isUtf8 } from 'node:buffer'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { scan } from './content/scan.ts'
import { apiError } from './errors.ts'

const MERGE_PATCH = 'application/merge-patch+json'
const JSON_TYPES = new Set(['application/json', 'application/vnd.api+json', MERGE_PATCH])
const MAX_DEPTH = 20
const BYTE_ORDER_MARK = '\ufeff'
/** A body on these would be dropped, and nothing is dropped silently. */
const WITHOUT_BODY = new Set(['GET', 'HEAD', 'DELETE'])

const unreadable = (message: string, cause?: unknown) => apiError('INVALID_REQUEST', { message, cause })
const unsupported = (message: string, headers = {}) =>
  apiError('UNSUPPORTED_MEDIA_TYPE', { message, headers })

/** Whether a request says that it has a body. */
export const hasBody = ({ headers }: FastifyRequest) =>
  headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0

/** @throws ApiError 415 */
function checkType({ headers, method }: FastifyRequest) {
  const encoding = headers['content-encoding']
  // What nearly all send.
  if (encoding === undefined && headers['content-type'] === 'application/json') return
  if (encoding !== undefined && encoding.toLowerCase() !== 'identity') {
    throw unsupported('Bodies are taken without a Content-Encoding', { 'Accept-Encoding': 'identity' })
  }
  const [type = '', ...parameters] = (headers['content-type'] ?? '').toLowerCase().split(';')
  if (!JSON_TYPES.has(type.trim())) throw unsupported('The body must be JSON, and Content-Type say so')
  if (type.trim() === MERGE_PATCH && method !== 'PATCH') throw unsupported(`${MERGE_PATCH} is for PATCH`)
  const charsets = parameters.flatMap((each) => /^\s*charset\s*=\s*"?([^"]*?)"?\s*$/.exec(each)?.[1] ?? [])
  if (charsets.some((charset) => charset !== 'utf-8' && charset !== 'utf8')) {
    throw unsupported('The body must be UTF-8')
  }
}

function parse(body: Buffer): unknown {
  if (body.length === 0) return undefined
  if (!isUtf8(body)) throw unreadable('The body is not valid UTF-8')
  const text = body.toString('utf8')
  const { depth, hasDuplicates, hasForbidden } = scan(text)
  if (depth > MAX_DEPTH) throw unreadable(`The body nests deeper than ${MAX_DEPTH}`)
  if (hasForbidden) throw unreadable('The body has a member named __proto__ or constructor')
  if (hasDuplicates) throw unreadable('An object of the body has a member twice')
  try {
    // As editors on Windows write it; RFC 8259 lets a reader pass over it.
    return JSON.parse(text.startsWith(BYTE_ORDER_MARK) ? text.slice(1) : text)
  } catch (error) {
    throw unreadable('The body is not valid JSON', error)
  }
}

async function content(app: FastifyInstance) {
  // One parser for whatever was declared: the hook below has let through what it can read, and what is empty.
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (request, body: Buffer, done) => {
    try {
      if (body.length > 0 && WITHOUT_BODY.has(request.method)) throw unreadable('This method takes no body')
      done(null, parse(body))
    } catch (error) {
      done(error instanceof Error ? error : new Error(String(error)))
    }
  })

  // Before the body is read: what it could not be read as.
  app.addHook('preParsing', (request, _reply, payload, done) => {
    if (!hasBody(request)) return done(null, payload)
    // Fastify reads a DELETE's body and leaves those of GET and HEAD alone.
    if (WITHOUT_BODY.has(request.method) && request.method !== 'DELETE') {
      throw unreadable('This method takes no body')
    }
    if (request.method !== 'DELETE' || request.headers['content-type'] !== undefined) checkType(request)
    done(null, payload)
  })
}

export default fp(content, { name: 'content', dependencies: ['errors'] })
