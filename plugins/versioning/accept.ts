/** Content negotiation: selects the API version and the media type of a response from the Accept header. */
import { parse } from 'content-type'
import Negotiator from 'negotiator'

/** The vendor media type, which can name a version: `application/vnd.api+json;version=2`. */
export const VENDOR_TYPE = 'application/vnd.api+json'

/** The media type of server-sent events, which few addresses have. */
export const STREAM_TYPE = 'text/event-stream'

export interface Negotiated {
  version: number
  /** Whether the client prefers the vendor media type to `application/json`. */
  vendor: boolean
  /** Whether the client prefers a stream to both. */
  stream: boolean
}

/** Characters. Real clients send a tenth of this; the limit bounds the work for unauthenticated requests. */
const MAX_ACCEPT_LENGTH = 1_024
const MAX_CACHE_SIZE = 200

/** Replaces `*` as a parameter's value: Negotiator matches `version=*` with any version, but no version has that name. */
const replaceWildcards = (accept: string) =>
  accept.replace(/(;\s*[^=;,\s]+\s*=\s*"?)\*(?="?\s*(?:[;,]|$))/g, '$1?')

/** A weight (RFC 9110, section 12.4.2): from 0 to 1, with at most three decimals. */
const WEIGHT = /^(?:0(?:\.\d{0,3})?|1(?:\.0{0,3})?)$/

/** Removes media ranges with a malformed weight: Negotiator would sort by `q=1.5`, and read `q=` as 1. */
function dropMalformedWeights(accept: string): string {
  const ranges: string[] = []
  let start = 0
  while (start < accept.length) {
    const { index, parameters } = parse(accept, { comma: true, start })
    const { q } = parameters
    if (q === undefined || WEIGHT.test(q)) ranges.push(accept.slice(start, index))
    start = index + 1
  }
  return ranges.join()
}

/** Returns the available representations by media type, ordered by the server's preference. */
function createOffers(candidates: readonly number[], hasStream: boolean): Map<string, Negotiated> {
  const [first] = candidates
  const plain =
    first === undefined ? [] : [{ type: 'application/json', version: first, vendor: false, stream: false }]
  const vendor = candidates.map((version) => ({
    type: `${VENDOR_TYPE};version=${version}`,
    version,
    vendor: true,
    stream: false,
  }))
  const stream = plain.map((offer) => ({ ...offer, type: STREAM_TYPE, stream: true }))
  return new Map(
    [...plain, ...vendor, ...(hasStream ? stream : [])].flatMap(({ type, ...negotiated }) => [
      [type, negotiated],
      [`${type};charset=utf-8`, negotiated],
    ]),
  )
}

/**
 * Creates a function from an Accept header to the representation to send, or undefined if none is acceptable. The
 * highest `q` decides, then the most specific range, then the order in the header, as in Negotiator.
 * @param candidates the available versions; the first is the default
 * @param hasStream whether a stream is available too
 */
export function createNegotiation(candidates: readonly number[], hasStream = false) {
  const offers = createOffers(candidates, hasStream)
  const types = [...offers.keys()]
  const defaultOffer = types[0] === undefined ? undefined : offers.get(types[0])
  // Clients send few different values. Without the cache, `application/json, text/plain, */*` costs 17 us, a tenth of a read.
  const cache = new Map<string, Negotiated | undefined>()

  return (accept: string | undefined): Negotiated | undefined => {
    if (accept === undefined || accept === '*/*' || accept === 'application/json') return defaultOffer
    if (cache.has(accept)) return cache.get(accept)
    if (accept.trim() === '') return defaultOffer
    if (accept.length > MAX_ACCEPT_LENGTH) return undefined
    const ranges = replaceWildcards(dropMalformedWeights(accept))
    const best = new Negotiator({ headers: { accept: ranges } }).mediaTypes(types)[0]
    const negotiated = best === undefined ? undefined : offers.get(best)
    if (cache.size >= MAX_CACHE_SIZE) cache.clear()
    cache.set(accept, negotiated)
    return negotiated
  }
}
