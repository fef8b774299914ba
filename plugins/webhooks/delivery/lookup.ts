/** Look-ups of host names for connections of webhooks: every address of a name must be allowed. */
import type { LookupAddress } from 'node:dns'
import { lookup as lookupAddresses, Resolver } from 'node:dns/promises'
import type { LookupFunction } from 'node:net'
import { getErrorCode } from '../../../lib/error-code.ts'
import type { AddressPolicy } from './addresses.ts'
import { AttemptError, NO_ADDRESS, NOT_PUBLIC } from './failures.ts'

/** Returns all addresses of a host name. */
export type LookupAll = (hostname: string) => Promise<LookupAddress[]>

/** Asks the operating system, which also knows the names in /etc/hosts and search domains. */
const lookupBySystem: LookupAll = (hostname) => lookupAddresses(hostname, { all: true })

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
  lookupOther: LookupAll = lookupBySystem,
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
    return lookupOther(hostname)
  }
}

/** Shares a look-up that is under way. */
function shareLookups(lookup: LookupAll): LookupAll {
  const pending = new Map<string, Promise<LookupAddress[]>>()
  return (hostname) => {
    const existing = pending.get(hostname)
    if (existing !== undefined) return existing
    const started = lookup(hostname).finally(() => pending.delete(hostname))
    pending.set(hostname, started)
    return started
  }
}

/**
 * Returns the `lookup` option of a connection. Node.js connects to the very addresses that it returns, so a name that
 * resolves to another address later (DNS rebinding) does not matter. One refused address refuses the name: Node.js would
 * try the addresses one after the other. It must be called with `all`, as connections with `autoSelectFamily` do.
 */
export function createCheckedLookup(policy: AddressPolicy, lookup: LookupAll): LookupFunction {
  const lookupShared = shareLookups(lookup)
  return (hostname, _options, callback) => {
    lookupShared(hostname)
      .then((addresses) => {
        if (addresses.length === 0) throw new AttemptError(NO_ADDRESS)
        if (!addresses.every(({ address }) => policy.isAddressAllowed(address)))
          throw new AttemptError(NOT_PUBLIC)
        return addresses
      })
      .then(
        (addresses) => callback(null, addresses),
        (error) => callback(error, []),
      )
  }
}
