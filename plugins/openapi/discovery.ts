/** Serves the start page and its JSON form at `/`, and the API catalog (RFC 9727). */
import { createHash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { FastifyInstance } from 'fastify'
import Negotiator from 'negotiator'
import { identity } from '../../lib/identity.ts'
import { addVary } from '../http/response-headers.ts'
import { createAsset, createJsonAsset, MAX_NEGOTIATION_LENGTH, sendAsset, serveAsset } from './assets.ts'
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
const POLICY = {
  contentSecurityPolicy: {
    useDefaults: false,
    directives: {
      defaultSrc: ["'none'"],
      styleSrc: [`'sha256-${styleHash}'`],
      imgSrc: ['data:'],
      baseUri: ["'none'"],
      formAction: ["'none'"],
      frameAncestors: ["'none'"],
    },
  },
}

const CATALOG_TYPE = 'application/linkset+json; profile="https://www.rfc-editor.org/info/rfc9727"'

// JSON is first: clients that accept both alike (`*/*`) get it, and so do clients that accept neither.
const TYPES = ['application/json', 'text/html']

/** Returns whether to send the page, and not the JSON. */
function prefersHtml(request: IncomingMessage): boolean {
  if ((request.headers.accept?.length ?? 0) > MAX_NEGOTIATION_LENGTH) return false
  const [type] = new Negotiator(request).mediaTypes(TYPES)
  return type === 'text/html'
}

export default async function discovery(
  app: FastifyInstance,
  { versions, release, publicUrl }: DiscoveryOptions,
) {
  const links = getServiceLinks(versions, publicUrl)
  const linkHeader = buildLinkHeader(links)
  const page = createAsset('text/html; charset=utf-8', renderStartPage(release, links))
  const index = createJsonAsset({ name: identity.name, version: release, links })

  app.get('/', { config: { access: 'public' } }, async (request, reply) => {
    addVary(reply, 'Accept')
    reply.header('Link', linkHeader)
    if (!prefersHtml(request.raw)) return sendAsset(request, reply, index)
    reply.helmet(POLICY)
    return sendAsset(request, reply, page)
  })

  const createCatalog = () => createAsset(CATALOG_TYPE, JSON.stringify(buildCatalog(links)))
  serveAsset(app, API_CATALOG_PATH, createCatalog, { headers: { Link: linkHeader } })
}
