/** Decides which IP addresses webhooks may reach, so that no endpoint reaches the server's own network (SSRF). */
import { isIP } from 'node:net'
import ipaddr from 'ipaddr.js'

export interface AddressPolicy {
  /** Whether a connection to an IP address is allowed. Texts that are not IP addresses are not. */
  isAddressAllowed(address: string): boolean
  /**
   * Whether the host of a URL is allowed as far as it can be decided without DNS. A name is allowed here: the addresses
   * that it resolves to are checked when a connection is made.
   * @param hostname as `URL` has it: IPv4 in four decimal parts, IPv6 in brackets
   */
  isHostAllowed(hostname: string): boolean
}

interface AddressPolicyOptions {
  /** Allows every address. */
  allowsPrivate: boolean
  /** Allows 127.0.0.0/8 and ::1. */
  allowsLoopback: boolean
}

/** IPv6 that IANA has assigned to global unicast. The rest is reserved, local or a form of an IPv4 address. */
const GLOBAL_UNICAST = ipaddr.IPv6.parseCIDR('2000::/3')
/** RFC 6052. Its sibling 64:ff9b:1::/48 (RFC 8215) is for local use, so it is not unwrapped but refused. */
const NAT64 = ipaddr.IPv6.parseCIDR('64:ff9b::/96')

/** Returns the IPv4 address in four bytes of an IPv6 address. */
const readIPv4 = (bytes: readonly number[], offset: number) =>
  new ipaddr.IPv4(bytes.slice(offset, offset + 4))

/**
 * Returns the IPv4 addresses to which an IPv6 address leads through a translator or a tunnel.
 * @returns empty for an address that contains none
 */
function unwrap(address: ipaddr.IPv6): ipaddr.IPv4[] {
  if (address.isIPv4MappedAddress()) return [address.toIPv4Address()]
  const bytes = address.toByteArray()
  if (address.match(NAT64)) return [readIPv4(bytes, 12)]
  const range = address.range()
  if (range === '6to4') return [readIPv4(bytes, 2)]
  if (range === 'teredo') {
    // RFC 4380: the address of the Teredo server, and the client's with all bits inverted.
    const inverted = bytes.map((byte) => byte ^ 0xff)
    return [readIPv4(bytes, 4), readIPv4(inverted, 12)]
  }
  return []
}

const isPublic = (address: ipaddr.IPv4 | ipaddr.IPv6): boolean =>
  address.range() === 'unicast' && (address.kind() === 'ipv4' || address.match(GLOBAL_UNICAST))

export function createAddressPolicy({ allowsPrivate, allowsLoopback }: AddressPolicyOptions): AddressPolicy {
  const isUnwrappedAllowed = (address: ipaddr.IPv4 | ipaddr.IPv6): boolean =>
    isPublic(address) || (allowsLoopback && address.range() === 'loopback')

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
    isHostAllowed(hostname) {
      // RFC 6761, section 6.3: these names always mean loopback.
      if (/^(?:.*\.)?localhost\.?$/.test(hostname)) return isAddressAllowed('127.0.0.1')
      const literal = hostname.replace(/^\[|\]$/g, '')
      return isIP(literal) === 0 || isAddressAllowed(literal)
    },
  }
}
