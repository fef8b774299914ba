/** The check of an endpoint's URL when it is created or changed. */
import type { AddressPolicy } from './addresses.ts'

interface UrlRules {
  requiresHttps: boolean
  policy: AddressPolicy
}

/** Characters. Some servers and proxies reject longer URLs. */
const MAX_URL_LENGTH = 2_048

/** The characters of RFC 3986. `new URL` would repair others: it removes tabs, and reads `\` as `/`. */
const HTTP_URI = /^https?:\/\/(?![/?#])(?:[A-Za-z0-9\-._~:/?#[\]@!$&'()*+,;=]|%[0-9A-Fa-f]{2})+$/

/** Also an empty user: `https://@host` has none for `URL`. */
const AUTHORITY_WITH_USER = /^https?:\/\/[^/?#]*@/

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
  if (!policy.isHostAllowed(hostname)) return 'must not have a host that is not public'
  return undefined
}
