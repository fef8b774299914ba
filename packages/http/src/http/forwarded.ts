/** Reads the client's address and protocol from the headers of trusted proxies. No other module parses them. */
import type { IncomingMessage } from 'node:http'
import { isIP } from 'node:net'
import ipaddr from 'ipaddr.js'

/** Returns whether the proxy at `address`, so many hops before this server, is trusted. */
export type IsTrusted = (address: string, hop: number) => boolean

/** An IPv6 address with brackets, zone and port is shorter. */
const MAX_ENTRY_LENGTH = 100
const WITH_PORT = /^(?:\[([^\]]+)\]|([0-9.]+))(?::[0-9]{1,5})?$/

/**
 * Returns the IP address of an entry of `X-Forwarded-For`, in its canonical form; undefined if it is none. Some proxies
 * add a port, brackets or quotes. A zone names an interface of the proxy, and is left out.
 */
function parseForwardedAddress(entry: string): string | undefined {
  if (entry.length > MAX_ENTRY_LENGTH) return undefined
  const text = /^"(.*)"$/.exec(entry)?.[1] ?? entry
  const [, bracketed, ipv4] = WITH_PORT.exec(text) ?? []
  const literal = bracketed ?? ipv4 ?? text
  const address = literal.includes(':') ? (literal.split('%', 1)[0] ?? '') : literal
  // `isIP` accepts only the usual forms, but ipaddr.js also `0x7f.1`.
  return isIP(address) === 0 ? undefined : ipaddr.process(address).toString()
}

/** Returns the entries of a list, the last one first: each proxy appends its own. */
const readEntries = (header: string | string[] | undefined): string[] =>
  String(header ?? '')
    .split(',')
    .map((entry) => entry.trim())
    .filter((entry) => entry !== '')
    .reverse()

/**
 * Replaces `X-Forwarded-For` and `X-Forwarded-Proto` by the one entry of each that counts, which Fastify then reads. The
 * address is the first one, seen from this server, that no trusted proxy has. An entry that is no address counts as that
 * of the proxy that wrote it. The protocol is the entry of the same hop; proxies that replace the header leave only one.
 */
export function normalizeForwarded({ headers, socket }: IncomingMessage, isTrusted: IsTrusted): void {
  let address = socket.remoteAddress ?? ''
  if (!isTrusted(address, 0)) return
  const entries = readEntries(headers['x-forwarded-for'])
  let hops = 0
  do {
    const next = entries[hops]
    if (next === undefined) break
    hops += 1
    const parsed = parseForwardedAddress(next)
    if (parsed === undefined) break
    address = parsed
  } while (isTrusted(address, hops))
  if (address === socket.remoteAddress) delete headers['x-forwarded-for']
  else headers['x-forwarded-for'] = address

  const protocols = readEntries(headers['x-forwarded-proto'])
  const protocol = protocols[Math.max(hops, 1) - 1] ?? protocols.at(-1)
  if (protocol !== undefined)
    headers['x-forwarded-proto'] = protocol.toLowerCase() === 'https' ? 'https' : 'http'
}
