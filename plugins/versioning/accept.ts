/** Accept: the version and the media type that a client prefers, of those that there are. */
import { parse } from 'content-type'
import Negotiator from 'negotiator'

export const VENDOR = 'application/vnd.api+json'

export interface Negotiated {
  version: number
  /** Whether it is the vendor's media type that the client prefers. */
  vendor: boolean
}

/** Real ones have a tenth of this, and what comes before authentication should cost little. */
const LONGEST = 1_024
const MOST_KEPT = 200

/** Negotiator takes `version=*` for any version; here it is one that nobody knows. */
const withoutWildcards = (accept: string) =>
  accept.replace(/(;\s*[^=;,\s]+\s*=\s*"?)\*(?="?\s*(?:[;,]|$))/g, '$1?')

/** A weight as RFC 9110, section 12.4.2, has it: from 0 to 1, with at most three digits. */
const WEIGHT = /^(?:0(?:\.\d{0,3})?|1(?:\.0{0,3})?)$/

/** Drops the ranges whose weight is malformed: Negotiator would order by `q=1.5`, and read `q=` as 1. */
function dropMalformedWeights(accept: string): string {
  const kept: string[] = []
  let start = 0
  while (start < accept.length) {
    const { index, parameters } = parse(accept, { comma: true, start })
    const { q } = parameters
    if (q === undefined || WEIGHT.test(q)) kept.push(accept.slice(start, index))
    start = index + 1
  }
  return kept.join()
}

/** What is offered, by its media type, in the order that decides where a client has no preference. */
function offersOf(candidates: readonly number[]): Map<string, Negotiated> {
  const [first] = candidates
  const plain = first === undefined ? [] : [{ type: 'application/json', version: first, vendor: false }]
  const vendor = candidates.map((version) => ({
    type: `${VENDOR};version=${version}`,
    version,
    vendor: true,
  }))
  return new Map(
    [...plain, ...vendor].flatMap(({ type, ...negotiated }) => [
      [type, negotiated],
      [`${type};charset=utf-8`, negotiated],
    ]),
  )
}

/**
 * A function from Accept to what is served, undefined where nothing can be. `candidates` are versions; the first
 * serves a client that asks for none. The rule is Negotiator's: the highest q, the most specific range, the first.
 */
export function createNegotiation(candidates: readonly number[]) {
  const offers = offersOf(candidates)
  const types = [...offers.keys()]
  const usual = types[0] === undefined ? undefined : offers.get(types[0])
  // Clients send the same few over and over, and Negotiator's work is a good part of a request's.
  const known = new Map<string, Negotiated | undefined>()

  return (accept: string | undefined): Negotiated | undefined => {
    if (accept === undefined || accept === '*/*' || accept === 'application/json') return usual
    if (known.has(accept)) return known.get(accept)
    if (accept.trim() === '') return usual
    if (accept.length > LONGEST) return undefined
    const ranges = withoutWildcards(dropMalformedWeights(accept))
    const best = new Negotiator({ headers: { accept: ranges } }).mediaTypes(types)[0]
    const negotiated = best === undefined ? undefined : offers.get(best)
    if (known.size >= MOST_KEPT) known.clear()
    known.set(accept, negotiated)
    return negotiated
  }
}
