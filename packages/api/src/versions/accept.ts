/** Content negotiation: selects the API version and the media type of a response from the Accept header. */
import { parse } from 'content-type'
import Negotiator from 'negotiator'

/** The vendor media type, which can name a version: `application/vnd.api+json;version=2`. */
export const VENDOR_TYPE = 'application/vnd.api+json'

/** The media types of responses that are sent while they are made. */
export const STREAM_TYPES = {
  /** Server-sent events, which few addresses have. */
  events: 'text/event-stream',
  ndjson: 'application/x-ndjson',
  csv: 'text/csv',
} as const

export type StreamType = keyof typeof STREAM_TYPES

/** The streams of a list that declares none. */
export const EXPORT_TYPES: readonly StreamType[] = ['ndjson', 'csv']

export interface Negotiated {
  version: number
  /** Whether the client prefers the vendor media type to `application/json`. */
  vendor: boolean
  /** The stream that the client prefers to both, if it does. */
  stream: StreamType | undefined
}

/** Characters. Real clients send a tenth of this; the limit bounds the work for unauthenticated requests. */
const MAX_ACCEPT_LENGTH = 1_024
const MAX_CACHE_SIZE = 200

/** Replaces `*` as a parameter's value: Negotiator matches `version=*` with any version, but no version has that name. */
const replaceWildcards = (accept: string) =>
  accept.replace(/(;\s*[^=;,\s]+\s*=\s*"?)\*(?="?\s*(?:[;,]|$))/g, '$1?')

/** A weight: a decimal number from 0 to 1. Read with any number of digits, and without the zero (`.2`), as Java sends it. */
const WEIGHT = /^(?:0?\.\d+|0\.?|1(?:\.0*)?)$/

/**
 * Returns the media ranges that Negotiator reads as they are meant. Those with a malformed weight are left out: Negotiator
 * would sort by `q=1.5`, and read `q=` as 1. Java's HttpURLConnection writes `*` for any media type.
 */
function normalizeRanges(accept: string): string {
  const ranges: string[] = []
  let start = 0
  while (start < accept.length) {
    const { index, type, parameters } = parse(accept, { comma: true, start })
    const range = accept.slice(start, index)
    const { q } = parameters
    if (q === undefined || WEIGHT.test(q)) ranges.push(type === '*' ? range.replace('*', '*/*') : range)
    start = index + 1
  }
  return ranges.join()
}

/** The numbers of versions; the first is the default. */
type Versions = readonly [number, ...number[]]

/** Returns the available representations by media type, ordered by the server's preference; and a cache of choices. */
function createOffers([preferred, ...others]: Versions, streams: readonly StreamType[]) {
  const offers = new Map<string, Negotiated>()
  const add = (type: string, version: number, vendor = false, stream?: StreamType) => {
    for (const charset of ['', ';charset=utf-8', ';charset=utf8']) {
      offers.set(type + charset, { version, vendor, stream })
    }
  }
  add('application/json', preferred)
  for (const version of [preferred, ...others]) add(`${VENDOR_TYPE};version=${version}`, version, true)
  for (const stream of streams) add(STREAM_TYPES[stream], preferred, false, stream)
  // Clients send few different values. Without the cache, `application/json, text/plain, */*` costs 17 us, a tenth of a read.
  return { offers, cache: new Map<string, Negotiated | undefined>() }
}

/**
 * Creates a function from an Accept header to the representation to send, or undefined if none is acceptable. The
 * highest `q` decides, then the most specific range, then the order in the header, as in Negotiator.
 */
export function createNegotiation(versions: Versions) {
  const [version] = versions
  const defaultOffer: Negotiated = { version, vendor: false, stream: undefined }
  const offersByStreams = new Map<string, ReturnType<typeof createOffers>>()

  /** @param getStreams returns the streams that are available too */
  return (accept: string | undefined, getStreams: () => readonly StreamType[]): Negotiated | undefined => {
    if (accept === undefined || accept === '*/*' || accept === 'application/json') return defaultOffer
    const streams = getStreams()
    const key = streams.join()
    const known = offersByStreams.get(key) ?? createOffers(versions, streams)
    offersByStreams.set(key, known)
    const { offers, cache } = known
    if (cache.has(accept)) return cache.get(accept)
    if (accept.trim() === '') return defaultOffer
    if (accept.length > MAX_ACCEPT_LENGTH) return undefined
    const ranges = replaceWildcards(normalizeRanges(accept))
    const best = new Negotiator({ headers: { accept: ranges } }).mediaTypes([...offers.keys()])[0]
    const negotiated = best === undefined ? undefined : offers.get(best)
    if (cache.size >= MAX_CACHE_SIZE) cache.clear()
    cache.set(accept, negotiated)
    return negotiated
  }
}
