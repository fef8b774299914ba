/** Look-ups of host names for connections of webhooks: every address of a name must be allowed. */
import type { LookupAddress } from 'node:dns'
import { lookup as lookupAddresses, Resolver } from 'node:dns/promises'
import type { LookupFunction } from 'node:net'
import { getErrorCode } from '@resource-api/database'
import type { AddressPolicy } from './addresses.ts'
import { AttemptError, NO_ADDRESS, NOT_PUBLIC } from './failures.ts'

/** Returns all addresses of a host name. */
export type LookupAll = (hostname: string) => Promise<LookupAddress[]>

/** Milliseconds of the first try; the second one may take twice as long. */
const DNS_TIMEOUT = { timeout: 2_000, tries: 2 }
/** The name is not in DNS, or there is no DNS server. */
const NOT_FOUND_CODES = new Set(['ENOTFOUND', 'ENODATA', 'ECONNREFUSED'])

/**
 * Returns the look-up of host names: in DNS, and by the operating system if they are not there. libuv runs two look-ups by
 * the operating system at the same time, for the whole process, so two names whose DNS server does not answer would delay
 * all others, also those of the database.
 */
export function createLookup(
  resolver: Pick<Resolver, 'resolve4' | 'resolve6'> = new Resolver(DNS_TIMEOUT),
  // Also knows the names in /etc/hosts and search domains.
  lookupBySystem: LookupAll = (hostname) => lookupAddresses(hostname, { all: true }),
): LookupAll {
  return async (hostname) => {
    const results = await Promise.allSettled([resolver.resolve4(hostname), resolver.resolve6(hostname)])
    const addresses = results.flatMap((result, index) =>
      result.status === 'fulfilled'
        ? result.value.map((address) => ({ address, family: index === 0 ? 4 : 6 }))
        : [],
    )
    if (addresses.length > 0) return addresses
    for (const result of results)
      if (result.status === 'rejected' && !NOT_FOUND_CODES.has(getErrorCode(result.reason) ?? ''))
        throw result.reason
    return lookupBySystem(hostname)
  }
}

/**
 * Returns the `lookup` option of a connection. Node.js connects to the very addresses that it returns, so a name that
 * resolves to another address later (DNS rebinding) does not matter. One refused address refuses the name: Node.js would
 * try the addresses one after the other. It must be called with `all`, as connections with `autoSelectFamily` do.
 */
export function createCheckedLookup(policy: AddressPolicy, lookup: LookupAll): LookupFunction {
  /** Look-ups under way, which attempts to the same name share. */
  const pending = new Map<string, Promise<LookupAddress[]>>()

  async function lookupChecked(hostname: string): Promise<LookupAddress[]> {
    const addresses = await lookup(hostname)
    if (addresses.length === 0) throw new AttemptError(NO_ADDRESS)
    if (addresses.every(({ address }) => policy.isAddressAllowed(address))) return addresses
    throw new AttemptError(NOT_PUBLIC)
  }

  return (hostname, _options, callback) => {
    const found = pending.get(hostname) ?? lookupChecked(hostname).finally(() => pending.delete(hostname))
    pending.set(hostname, found)
    found.then(
      (addresses) => callback(null, addresses),
      (error) => callback(error, []),
    )
  }
}
