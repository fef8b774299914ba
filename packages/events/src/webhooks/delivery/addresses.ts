/** Decides which addresses and URLs webhooks may reach, so that none reaches the server's own network (SSRF). */
import { isIP } from 'node:net'
import type { Config } from '@resource-api/http/config'
import ipaddr from 'ipaddr.js'

interface AddressPolicyOptions {
  /** Allows every address. */
  allowsPrivate: boolean
  /** Allows 127.0.0.0/8 and ::1. */
  allowsLoopback: boolean
}

export type AddressPolicy = ReturnType<typeof createAddressPolicy>

/** IPv6 that IANA has assigned to global unicast. The rest is reserved, local or a form of an IPv4 address. */
const GLOBAL_UNICAST = ipaddr.IPv6.parseCIDR('2000::/3')
/** RFC 6052. Its sibling 64:ff9b:1::/48 (RFC 8215) is for local use, so it is not unwrapped but refused. */
const NAT64 = ipaddr.IPv6.parseCIDR('64:ff9b::/96')

/** Returns the IPv4 addresses to which an IPv6 address leads through a translator or a tunnel. */
function unwrap(address: ipaddr.IPv6): ipaddr.IPv4[] {
  if (address.isIPv4MappedAddress()) return [address.toIPv4Address()]
  const bytes = address.toByteArray()
  const read = (offset: number, invert = 0) =>
    new ipaddr.IPv4(bytes.slice(offset, offset + 4).map((byte) => byte ^ invert))
  if (address.match(NAT64)) return [read(12)]
  const range = address.range()
  if (range === '6to4') return [read(2)]
  // RFC 4380: the address of the Teredo server, and the client's with all bits inverted.
  return range === 'teredo' ? [read(4), read(12, 0xff)] : []
}

const isPublic = (address: ipaddr.IPv4 | ipaddr.IPv6): boolean =>
  address.range() === 'unicast' && (address.kind() === 'ipv4' || address.match(GLOBAL_UNICAST))

export function createAddressPolicy({ allowsPrivate, allowsLoopback }: AddressPolicyOptions) {
  const isUnwrappedAllowed = (address: ipaddr.IPv4 | ipaddr.IPv6): boolean =>
    isPublic(address) || (allowsLoopback && address.range() === 'loopback')

  /** Returns whether a connection to an IP address is allowed. Texts that are not IP addresses are not. */
  function isAddressAllowed(text: string): boolean {
    // `isIP` accepts only the canonical forms. A zone id names an interface of this machine.
    if (isIP(text) === 0 || text.includes('%')) return false
    if (allowsPrivate) return true
    const address = ipaddr.parse(text)
    const unwrapped = address instanceof ipaddr.IPv6 ? unwrap(address) : []
    return unwrapped.length === 0 ? isUnwrappedAllowed(address) : unwrapped.every(isUnwrappedAllowed)
  }

  return {
    isAddressAllowed,

    /**
     * Returns whether the host of a URL is allowed as far as it can be decided without DNS. A name is allowed here: the
     * addresses that it resolves to are checked when a connection is made.
     * @param hostname as `URL` has it: IPv4 in four decimal parts, IPv6 in brackets
     */
    isHostAllowed(hostname: string): boolean {
      // RFC 6761, section 6.3: these names always mean loopback.
      if (/^(?:.*\.)?localhost\.?$/.test(hostname)) return isAddressAllowed('127.0.0.1')
      const literal = hostname.replace(/^\[|\]$/g, '')
      return isIP(literal) === 0 || isAddressAllowed(literal)
    },
  }
}

/** What the URL of an endpoint has to fulfill. */
interface UrlRules {
  requiresHttps: boolean
  policy: AddressPolicy
}

/** Returns the rules of the settings. */
export const createUrlRules = ({
  NODE_ENV,
  WEBHOOK_PRIVATE_ADDRESSES,
}: Pick<Config, 'NODE_ENV' | 'WEBHOOK_PRIVATE_ADDRESSES'>): UrlRules => ({
  requiresHttps: NODE_ENV === 'production',
  policy: createAddressPolicy({
    allowsPrivate: WEBHOOK_PRIVATE_ADDRESSES,
    allowsLoopback: NODE_ENV !== 'production',
  }),
})

/** Characters. Some servers and proxies reject longer URLs. */
const MAX_URL_LENGTH = 2_048
/** The characters of RFC 3986. `new URL` would repair others: it removes tabs, and reads `\` as `/`. */
const HTTP_URI = /^https?:\/\/(?![/?#])(?:[A-Za-z0-9\-._~:/?#[\]@!$&'()*+,;=]|%[0-9A-Fa-f]{2})+$/i
/** Also an empty user: `https://@host` has none for `URL`. */
const AUTHORITY_WITH_USER = /^https?:\/\/[^/?#]*@/i

/**
 * Returns what is wrong with the URL of an endpoint, as the message of a violation, or undefined. Names are not resolved:
 * their addresses may change, so they are checked on every connection.
 */
export function findUrlMistake(url: string, { requiresHttps, policy }: UrlRules): string | undefined {
  if (url.length > MAX_URL_LENGTH) return `must not have more than ${MAX_URL_LENGTH} characters`
  if (!HTTP_URI.test(url) || !URL.canParse(url))
    return `must be an https${requiresHttps ? '' : ' or http'} URL`
  const { protocol, hostname } = new URL(url)
  if (requiresHttps && protocol !== 'https:') return 'must be an https URL'
  if (AUTHORITY_WITH_USER.test(url)) return 'must not contain credentials'
  // `hash` is empty for a URL that ends in "#".
  if (url.includes('#')) return 'must not contain a fragment'
  return policy.isHostAllowed(hostname) ? undefined : 'must not have a host that is not public'
}
