/** Compresses the responses of a scope, if COMPRESS is set. */
import { constants } from 'node:zlib'
import type { FastifyInstance, FastifyReply, FastifyRequest, onSendHookHandler } from 'fastify'
import fp from 'fastify-plugin'
import type { Config } from '../config/settings.ts'
import { addVary } from './response-headers.ts'

/** Bytes. Compressing this much takes half a millisecond on the event loop; larger responses use a thread. */
const MAX_SYNC_LENGTH = 65_536
/** Bytes. A smaller response fits into one packet anyway. */
const MIN_LENGTH = 1_024

/** The media types of the plugin's default, and NDJSON. */
const COMPRESSED_TYPES = /^text\/(?!event-stream)|[+/](?:x-nd)?json(?:;|$)/

/** Returns whether the response has the tag of a compressed one: it is compressed, or the client has one that is. */
const needsWeakTag = ({ headers }: FastifyRequest, reply: FastifyReply, tag: string) =>
  reply.statusCode === 304
    ? headers['if-none-match']?.includes(`W/${tag}`) === true
    : reply.hasHeader('content-encoding')

/**
 * Makes the tag of a compressed response weak: a strong tag stands for the same bytes (RFC 9110, section 8.8.1). Writes
 * compare the revision in the tag, so If-Match accepts both forms.
 */
const weakenTag: onSendHookHandler = (request, reply, payload, done) => {
  const tag = reply.getHeader('etag')
  if (typeof tag === 'string' && tag.startsWith('"') && needsWeakTag(request, reply, tag)) {
    reply.header('etag', `W/${tag}`)
  }
  done(null, payload)
}

/**
 * With the default window of 4 MiB, a stream of an export takes 9 MB for as long as its client reads. A window of 128 KiB is
 * larger than nearly all responses.
 */
const BROTLI_OPTIONS = {
  params: { [constants.BROTLI_PARAM_QUALITY]: 4, [constants.BROTLI_PARAM_LGWIN]: 17 },
}

async function compression(scope: FastifyInstance, { COMPRESS }: Pick<Config, 'COMPRESS'>) {
  if (!COMPRESS) return
  const { default: compress } = await import('@fastify/compress')
  scope.addHook('onRequest', (_request, reply, done) => {
    // In lower case, as @fastify/compress adds it unless it is there.
    addVary(reply, 'accept-encoding')
    done()
  })
  await scope.register(compress, {
    threshold: MIN_LENGTH,
    syncThreshold: MAX_SYNC_LENGTH,
    customTypes: COMPRESSED_TYPES,
    brotliOptions: BROTLI_OPTIONS,
    encodings: ['br', 'gzip', 'identity'],
    // Compressed request bodies remain 415.
    globalDecompression: false,
  })
  scope.addHook('onRoute', (route) => {
    const hooks = [route.onSend ?? []].flat()
    // The last one is that of @fastify/compress. The hook of Fastify's own HEAD routes, which measures and drops the
    // body, must run after it: a HEAD has the headers of the GET.
    route.onSend = [...hooks.slice(-1), weakenTag, ...hooks.slice(0, -1)]
  })
}

export default fp(compression, { name: 'compression', dependencies: ['response-headers'] })
