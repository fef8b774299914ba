/** The URL of the service, the links to its documents and health checks, and the forms in which clients discover them. */
import type { FastifyInstance } from 'fastify'

/** The address of a server with the default settings, for documents that are built before a server listens. */
const DEFAULT_URL = 'http://127.0.0.1:3000'

/** Addresses that stand for all interfaces; no client can connect to them everywhere. */
const WILDCARDS = new Set(['0.0.0.0', '::'])

/** Returns PUBLIC_URL if it is set, and otherwise the address that the server listens on. */
export function getServerUrl(
  app: Pick<FastifyInstance, 'addresses' | 'initialConfig'>,
  publicUrl: string | undefined,
): string {
  if (publicUrl !== undefined) return publicUrl
  // The last one is that of the main port, the others are further addresses of a host name.
  const bound = app.addresses().at(-1)
  // A text is the path of a Unix socket, which the server does not listen on.
  if (bound === undefined || typeof bound === 'string') return DEFAULT_URL
  const { address, family, port } = bound
  const literal = family === 'IPv6' ? `[${address}]` : address
  const host = WILDCARDS.has(address) ? 'localhost' : literal
  return `${app.initialConfig.https ? 'https' : 'http'}://${host}:${port}`
}

export const API_CATALOG_PATH = '/.well-known/api-catalog'

/** Returns the links that the start page and the API catalog have: absolute with PUBLIC_URL, otherwise paths. */
export function getServiceLinks(versions: readonly number[], publicUrl = '') {
  return {
    docs: `${publicUrl}/docs`,
    api_catalog: `${publicUrl}${API_CATALOG_PATH}`,
    liveness: `${publicUrl}/livez`,
    readiness: `${publicUrl}/readyz`,
    versions: versions.map((version) => ({
      version,
      api: `${publicUrl}/api/v${version}`,
      openapi: `${publicUrl}/openapi/v${version}.json`,
      postman: `${publicUrl}/openapi/v${version}.postman.json`,
      bruno: `${publicUrl}/openapi/v${version}.bruno.json`,
    })),
  }
}

export type ServiceLinks = ReturnType<typeof getServiceLinks>

/** Returns the value of `Link` with the relations of RFC 8631 and RFC 9727. */
export const buildLinkHeader = ({ docs, api_catalog, liveness, versions }: ServiceLinks): string =>
  [
    ...versions.map(({ openapi }) => `<${openapi}>; rel="service-desc"; type="application/json"`),
    `<${docs}>; rel="service-doc"; type="text/html"`,
    `<${liveness}>; rel="status"; type="application/json"`,
    `<${api_catalog}>; rel="api-catalog"; type="application/linkset+json"`,
  ].join(', ')

/** Returns the catalog as a link set (RFC 9264): one API for each version. */
export const buildCatalog = ({ docs, api_catalog, liveness, versions }: ServiceLinks) => ({
  linkset: [
    { anchor: api_catalog, item: versions.map(({ api }) => ({ href: api })) },
    ...versions.map(({ api, openapi }) => ({
      anchor: api,
      'service-desc': [{ href: openapi, type: 'application/json' }],
      'service-doc': [{ href: docs, type: 'text/html' }],
      status: [{ href: liveness, type: 'application/json' }],
    })),
  ],
})
