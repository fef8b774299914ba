/** Serves the links of the service: the start page and its JSON form at `/`, the API catalog (RFC 9727), the icon. */
import { createHash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { identity, release } from '@resource-api/database'
import {
  createAsset,
  createJsonAsset,
  MAX_NEGOTIATION_LENGTH,
  sendAsset,
  serveAsset,
} from '@resource-api/http/assets'
import type { Config } from '@resource-api/http/config'
import { addVary, getServerUrl } from '@resource-api/http/internal'
import type { FastifyInstance } from 'fastify'
import Negotiator from 'negotiator'
import { escapeHtml, ICON, ICON_SVG, renderDocument } from './html.ts'

const API_CATALOG_PATH = '/.well-known/api-catalog'

/** Returns the links that the start page and the API catalog have: absolute with PUBLIC_URL, otherwise paths. */
function getServiceLinks(versions: readonly number[], publicUrl = '') {
  return {
    docs: `${publicUrl}/docs`,
    api_catalog: `${publicUrl}${API_CATALOG_PATH}`,
    liveness: `${publicUrl}/livez`,
    readiness: `${publicUrl}/readyz`,
    versions: versions.map((version) => ({
      version,
      api: `${publicUrl}/api/v${version}`,
      openapi: `${publicUrl}/openapi/v${version}.json`,
    })),
  }
}

type ServiceLinks = ReturnType<typeof getServiceLinks>

/** Returns the value of `Link` with the relations of RFC 8631 and RFC 9727. */
const buildLinkHeader = ({ docs, api_catalog, liveness, versions }: ServiceLinks): string =>
  [
    ...versions.map(({ openapi }) => `<${openapi}>; rel="service-desc"; type="application/json"`),
    `<${docs}>; rel="service-doc"; type="text/html"`,
    `<${liveness}>; rel="status"; type="application/json"`,
    `<${api_catalog}>; rel="api-catalog"; type="application/linkset+json"`,
  ].join(', ')

/** Returns the catalog as a link set (RFC 9264): one API for each version. */
const buildCatalog = ({ docs, api_catalog, liveness, versions }: ServiceLinks) => ({
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

/** The content of the style element, whose hash the content security policy names. */
const STYLE = `
:root {
  color-scheme: light dark;
  --text: #1b2230; --muted: #5b6475; --page: #f6f7f9; --panel: #fff; --line: #dfe3ea; --accent: #1d4ed8;
}
@media (prefers-color-scheme: dark) {
  :root { --text: #e6e9ef; --muted: #9aa4b5; --page: #12151b; --panel: #1a1f28; --line: #2c3441; --accent: #8ab0ff; }
}
* { box-sizing: border-box; }
body {
  margin: 0; min-height: 100vh; padding: 12vh 20px 40px; background: var(--page); color: var(--text);
  font: 16px/1.5 system-ui, sans-serif;
}
main { max-width: 44rem; margin: 0 auto; }
h1 { display: flex; align-items: center; gap: 12px; margin: 0 0 20px; font-size: 1.75rem; line-height: 1.2; }
h1 img { width: 40px; height: 40px; }
pre {
  margin: 0 0 24px; padding: 14px 16px; border: 1px solid var(--line); border-radius: 8px; background: var(--panel);
  font: 0.875rem/1.6 ui-monospace, monospace; white-space: pre-wrap; overflow-wrap: anywhere;
}
code { font: 0.875rem ui-monospace, monospace; }
.docs {
  display: inline-block; padding: 10px 18px; border-radius: 6px; background: var(--accent); color: var(--page);
  font-weight: 600; text-decoration: none;
}
.documents { margin-top: 32px; color: var(--muted); }
a { color: var(--accent); }
a:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
`

const renderNames = (names: readonly string[]) =>
  names.map((name) => `<code>/${escapeHtml(name)}</code>`).join(', ')

const renderLink = (href: string, text: string) => `<a href="${escapeHtml(href)}">${escapeHtml(text)}</a>`

/**
 * @param url the address of the service, for the example
 * @param own the names of the collections that only this application has
 * @param common the names of those that every application has
 */
const renderStartPage = (
  url: string,
  { own, common }: Record<'own' | 'common', readonly string[]>,
  { docs, versions }: ServiceLinks,
): string =>
  renderDocument({
    title: identity.title,
    style: STYLE,
    body: `<main>
<h1><img src="${ICON}" alt="">${escapeHtml(identity.title)}</h1>
<p>A JSON API with ${[own, common]
      .filter((names) => names.length > 0)
      .map(renderNames)
      .join(', and ')}. A first request, with your API key:</p>
<pre>${escapeHtml(`curl -H 'X-API-Key: YOUR_API_KEY' ${url}/api/v${versions[0]?.version}/users/me`)}</pre>
<a class="docs" href="${escapeHtml(docs)}">Documentation</a>
<p class="documents">Release ${escapeHtml(release)} · OpenAPI documents:
${versions.map(({ version, openapi }) => renderLink(openapi, `version ${version}`)).join(', ')}</p>
</main>`,
  })

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

export default async function discovery(app: FastifyInstance, { PUBLIC_URL }: Pick<Config, 'PUBLIC_URL'>) {
  const versions = app.versions.map(({ representation }) => representation.version)
  const links = getServiceLinks(versions, PUBLIC_URL)
  const linkHeader = buildLinkHeader(links)
  const isOwn = (name: string) => name !== 'users' && app.ownResources.some((each) => each.name === name)
  const names = app.resources.filter(({ parent }) => !parent).map(({ name }) => name)
  const [own, common] = [names.filter(isOwn), names.filter((name) => !isOwn(name))]
  let page: ReturnType<typeof createAsset> | undefined
  const index = createJsonAsset({ name: identity.name, version: release, links })

  app.get('/', { config: { access: 'public' } }, async (request, reply) => {
    addVary(reply, 'Accept')
    reply.header('Link', linkHeader)
    if (!prefersHtml(request.raw)) return sendAsset(request, reply, index)
    reply.helmet(POLICY)
    // Not before the first request: the example has the address that the server listens on.
    page ??= createAsset(
      'text/html; charset=utf-8',
      renderStartPage(getServerUrl(app, PUBLIC_URL), { own, common }, links),
    )
    return sendAsset(request, reply, page)
  })

  serveAsset(app, '/favicon.ico', () => createAsset('image/svg+xml', ICON_SVG))
  const createCatalog = () => createAsset(CATALOG_TYPE, JSON.stringify(buildCatalog(links)))
  serveAsset(app, API_CATALOG_PATH, createCatalog, { headers: { Link: linkHeader } })
}
