/** Bodies: which media types, how large, how deep, and nothing that JSON cannot say. */
import { isUtf8 } from 'node:buffer'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import secureJsonParse from 'secure-json-parse'
import { apiError } from './errors.ts'

const MERGE_PATCH = 'application/merge-patch+json'
const JSON_TYPES = ['application/json', 'application/vnd.api+json', MERGE_PATCH]
const MAX_DEPTH = 20

/** How deep the objects and arrays of a JSON text nest, without parsing it. */
export function depthOf(text: string): number {
  let depth = 0
  let deepest = 0
  let inString = false
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (inString) {
      if (code === 0x5c) i++
      else if (code === 0x22) inString = false
    } else if (code === 0x22) inString = true
    else if (code === 0x7b || code === 0x5b) deepest = Math.max(deepest, ++depth)
    else if (code === 0x7d || code === 0x5d) depth--
  }
  return deepest
}

const unreadable = (message: string, cause?: unknown) => apiError('INVALID_REQUEST', { message, cause })

function checkType(request: FastifyRequest) {
  const type = request.headers['content-type'] ?? ''
  const charset = /;\s*charset\s*=\s*"?([^\s;"]+)/i.exec(type)?.[1]?.toLowerCase()
  if (charset !== undefined && charset !== 'utf-8' && charset !== 'utf8') {
    throw apiError('UNSUPPORTED_MEDIA_TYPE', { message: 'The body must be UTF-8' })
  }
  if (type.toLowerCase().startsWith(MERGE_PATCH) && request.method !== 'PATCH') {
    throw apiError('UNSUPPORTED_MEDIA_TYPE', { message: `${MERGE_PATCH} is for PATCH` })
  }
}

function parse(request: FastifyRequest, body: Buffer): unknown {
  if (body.length === 0) return undefined
  if (request.method === 'DELETE') throw unreadable('DELETE takes no body')
  if (!isUtf8(body)) throw unreadable('The body is not valid UTF-8')
  const text = body.toString('utf8')
  if (depthOf(text) > MAX_DEPTH) throw unreadable(`The body nests deeper than ${MAX_DEPTH}`)
  try {
    return secureJsonParse.parse(text, undefined, { protoAction: 'error', constructorAction: 'error' })
  } catch (error) {
    throw unreadable('The body is not valid JSON, or holds a forbidden key', error)
  }
}

async function content(app: FastifyInstance) {
  app.removeAllContentTypeParsers()
  app.addContentTypeParser(JSON_TYPES, { parseAs: 'buffer' }, async (request: FastifyRequest, body: Buffer) =>
    parse(request, body),
  )

  // Before the body is read: what it could not be read as.
  app.addHook('preParsing', async (request, _reply, payload) => {
    const encoding = request.headers['content-encoding']
    if (encoding !== undefined && encoding.toLowerCase() !== 'identity') {
      throw apiError('UNSUPPORTED_MEDIA_TYPE', {
        message: 'Bodies are taken without a Content-Encoding',
        headers: { 'Accept-Encoding': 'identity' },
      })
    }
    checkType(request)
    return payload
  })
}

export default fp(content, { name: 'content', dependencies: ['errors'] })
