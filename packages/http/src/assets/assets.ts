/** Serves texts that change only with a release: cacheable, compressed once for each encoding. */
import type { IncomingMessage } from 'node:http'
import { promisify } from 'node:util'
import { brotliCompress, gzip, constants as zlib } from 'node:zlib'
import type {} from '@fastify/helmet'
import { hashText } from '@resource-api/api/preconditions'
import type { FastifyInstance, FastifyReply, FastifyRequest, RouteShorthandOptions } from 'fastify'
import Negotiator from 'negotiator'
import { addVary } from '../http/response-headers.ts'

export type Compression = 'br' | 'gzip'

/** A text with its compressed forms. */
export interface Asset {
  type: string
  content: Buffer
  /** Returns the text in an encoding, which is compressed at the first call. */
  compressed: Readonly<Record<Compression, () => Promise<Buffer>>>
}

/** The compressions in the order of the server's preference. */
export const COMPRESSIONS: readonly Compression[] = ['br', 'gzip']

/** For compression at run time. The highest quality, 11, takes many times as long and saves little. */
const BROTLI_QUALITY = 9

/** Compresses in the thread pool of libuv. */
export function compress(content: Buffer, encoding: Compression, quality: number): Promise<Buffer> {
  if (encoding === 'gzip') return promisify(gzip)(content, { level: zlib.Z_BEST_COMPRESSION })
  return promisify(brotliCompress)(content, {
    params: { [zlib.BROTLI_PARAM_QUALITY]: quality, [zlib.BROTLI_PARAM_SIZE_HINT]: content.length },
  })
}

/** Returns a function that calls `create` once for all callers. After a failure, the next call tries again. */
function cachePromise<T>(create: () => Promise<T>): () => Promise<T> {
  let cached: Promise<T> | undefined
  return () => {
    cached ??= create().catch((error: unknown) => {
      cached = undefined
      throw error
    })
    return cached
  }
}

/**
 * Creates an asset from a text.
 * @param readCompressed returns a compressed form that the build has written, or undefined
 */
export function createAsset(
  type: string,
  text: string,
  readCompressed?: (hash: string, encoding: Compression) => Promise<Buffer | undefined>,
): Asset {
  const content = Buffer.from(text)
  const createCompressed = (encoding: Compression) =>
    cachePromise(
      async () =>
        (await readCompressed?.(hashText(content), encoding)) ??
        (await compress(content, encoding, BROTLI_QUALITY)),
    )
  return { type, content, compressed: { br: createCompressed('br'), gzip: createCompressed('gzip') } }
}

/** The second parameter of Negotiator's `encodings`, which its types lack. */
interface EncodingNegotiator {
  encodings(available: readonly string[], options: { preferred: readonly string[] }): string[]
}

/** Characters. A longer Accept or Accept-Encoding is not read: clients send a tenth of this. */
export const MAX_NEGOTIATION_LENGTH = 1_024

/** Returns the compression to use, or undefined for none (RFC 9110, section 12.5.3). */
function negotiateCompression(request: IncomingMessage): Compression | undefined {
  if ((request.headers['accept-encoding']?.length ?? 0) > MAX_NEGOTIATION_LENGTH) return undefined
  const negotiator: EncodingNegotiator = new Negotiator(request)
  const [best] = negotiator.encodings([...COMPRESSIONS, 'identity'], { preferred: COMPRESSIONS })
  return COMPRESSIONS.find((encoding) => encoding === best)
}

/** The `Cache-Control` of what changes only with a release: caches ask before they use it. */
export const STATIC_CACHE = 'public, no-cache'

/** Sends an asset in the encoding that the client prefers. */
export async function sendAsset(request: FastifyRequest, reply: FastifyReply, asset: Asset) {
  const encoding = negotiateCompression(request.raw)
  addVary(reply, 'Accept-Encoding')
  reply.header('Cache-Control', STATIC_CACHE).type(asset.type)
  if (encoding === undefined) return reply.send(asset.content)
  return reply.header('Content-Encoding', encoding).send(await asset.compressed[encoding]())
}

interface AssetOptions extends Pick<RouteShorthandOptions, 'helmet'> {
  /** Further headers of the response. */
  headers?: Record<string, string>
}

/** Serves an asset to everyone. It is created at the first request. */
export function serveAsset(
  app: FastifyInstance,
  url: string,
  create: () => Asset | Promise<Asset>,
  { headers = {}, ...options }: AssetOptions = {},
) {
  const getAsset = cachePromise(async () => create())
  app.get(url, { ...options, config: { access: 'public' } }, async (request, reply) => {
    reply.headers(headers)
    return sendAsset(request, reply, await getAsset())
  })
}

/** Returns the asset of a JSON value. */
export const createJsonAsset = (value: unknown) =>
  createAsset('application/json; charset=utf-8', JSON.stringify(value))
