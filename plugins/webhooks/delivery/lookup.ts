/** Look-ups of host names for connections of webhooks: every address of a name must be allowed. */
import type { LookupAddress } from 'node:dns'
import { lookup as lookupAddresses } from 'node:dns/promises'
import type { LookupFunction } from 'node:net'
import type { AddressPolicy } from './addresses.ts'
import { AttemptError, NO_ADDRESS, NOT_PUBLIC } from './failures.ts'

/** Returns all addresses of a host name. */
export type LookupAll = (hostname: string) => Promise<LookupAddress[]>

/** Asks the operating system, which also knows the names in /etc/hosts. */
export const lookupBySystem: LookupAll = (hostname) => lookupAddresses(hostname, { all: true })

/**
 * Shares a look-up that is under way. libuv runs two look-ups at the same time, for the whole process, so one name whose
 * DNS server is slow must not take both.
 */
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
