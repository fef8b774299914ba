/** Serves the start page and its JSON form at `/`, and the API catalog (RFC 9727). */
import { createHash } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import Negotiator from 'negotiator'
import { addVary } from '../http/add-vary.ts'
import staticCache, { createAsset, sendAsset } from './assets.ts'
import { API_CATALOG_PATH, buildCatalog, buildLinkHeader, getServiceLinks } from './service-links.ts'
import { renderStartPage, STYLE } from './start-page.ts'

interface DiscoveryOptions {
  versions: readonly number[]
  /** The release of the service. */
  release: string
  publicUrl: string | undefined
}

const styleHash = createHash('sha256').update(STYLE).digest('base64')

/** The page has no script, sends no form, and loads only its inline icon. */
const POLICY = [
  "default-src 'none'",
  `style-src 'sha256-${styleHash}'`,
  'img-src data:',
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ')

export default async function discovery(
  app: FastifyInstance,
  { versions, release, publicUrl }: DiscoveryOptions,
) {
  const links = getServiceLinks(versions, publicUrl)
  const linkHeader = buildLinkHeader(links)
  const page = createAsset('text/html; charset=utf-8', renderStartPage(release, links))
  const index = createAsset(
    'application/json; charset=utf-8',
    JSON.stringify({ name: 'resource-api', version: release, links }),
  )
  const catalog = createAsset(
    'application/linkset+json; profile="https://www.rfc-editor.org/info/rfc9727"',
    JSON.stringify(buildCatalog(links)),
  )
  await app.register(staticCache)

  app.get('/', { config: { access: 'public' } }, async (request, reply) => {
    // JSON is first: clients that accept both alike (`*/*`) get it, and so do clients that accept neither.
    const [type] = new Negotiator(request.raw).mediaTypes(['application/json', 'text/html'])
    addVary(reply, 'Accept')
    reply.header('Link', linkHeader)
    if (type !== 'text/html') return sendAsset(request, reply, index)
    reply.header('Content-Security-Policy', POLICY)
    return sendAsset(request, reply, page)
  })

  app.get(API_CATALOG_PATH, { config: { access: 'public' } }, async (request, reply) => {
    reply.header('Link', linkHeader)
    return sendAsset(request, reply, catalog)
  })
}
