/** Refuses forms of other sites, which would request mails in the name of their visitors. */
import { apiError } from '@resource-api/api/errors'
import { getServerUrl } from '@resource-api/http/internal'
import type { FastifyInstance, FastifyRequest } from 'fastify'

const OWN_SITES = new Set<unknown>(['same-origin', 'none'])

/**
 * Browsers set both headers, other clients need not. The pages have `Referrer-Policy: no-referrer`, so that the origin of
 * their own forms is `null`: then only `Sec-Fetch-Site` says whose form it is.
 * @throws ApiError 403
 */
export function checkOrigin(
  app: Pick<FastifyInstance, 'addresses' | 'initialConfig'>,
  { headers, host, protocol }: FastifyRequest,
  publicUrl: string | undefined,
): void {
  const { origin, 'sec-fetch-site': site } = headers
  const isOwnSite = site === undefined || OWN_SITES.has(site)
  const isOwnOrigin =
    origin === undefined ||
    (origin === 'null' && site === 'same-origin') ||
    origin === new URL(getServerUrl(app, publicUrl)).origin ||
    origin === `${protocol}://${host}`
  if (isOwnSite && isOwnOrigin) return
  throw apiError('FORBIDDEN', { message: 'Forms of other sites are not allowed' })
}
