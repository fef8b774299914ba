/** Serves the links of the service: the start page and its JSON form at `/`, the API catalog (RFC 9727), the icon. */
import { createHash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { identity } from '@resource-api/database'
import { release } from '@resource-api/database/internal'
import type { Config } from '@resource-api/http/config'
import {
  addVary,
  createAsset,
  createJsonAsset,
  MAX_NEGOTIATION_LENGTH,
  sendAsset,
  serveAsset,
} from '@resource-api/http/internal'
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
      postman: `${publicUrl}/openapi/v${version}.postman.json`,
      bruno: `${publicUrl}/openapi/v${version}.bruno.json`,
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
header { display: flex; align-items: center; gap: 14px; }
header img { width: 44px; height: 44px; }
h1 { margin: 0; font-size: 1.75rem; line-height: 1.2; }
header p { margin: 0; color: var(--muted); }
.docs {
  display: inline-block; margin: 28px 0; padding: 10px 18px; border-radius: 6px; background: var(--accent);
  color: var(--page); font-weight: 600; text-decoration: none;
}
.panels { display: grid; grid-template-columns: repeat(auto-fit, minmax(15rem, 1fr)); gap: 16px; }
section { padding: 18px 20px; border: 1px solid var(--line); border-radius: 8px; background: var(--panel); }
h2 { margin: 0 0 8px; font-size: 1rem; }
ul { margin: 0; padding: 0; list-style: none; }
li { padding: 3px 0; }
a { color: var(--accent); }
a:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
code { color: var(--muted); font: 0.875rem ui-monospace, monospace; }
`

const renderLink = (href: string, text: string) => `<a href="${escapeHtml(href)}">${escapeHtml(text)}</a>`

const renderPanel = (title: string, items: readonly string[]) =>
  `<section><h2>${title}</h2><ul>${items.map((item) => `<li>${item}</li>`).join('')}</ul></section>`

const renderVersion = ({ version, api, openapi, postman, bruno }: ServiceLinks['versions'][number]) =>
  renderPanel(`Version ${version}`, [
    `<code>${escapeHtml(api)}</code>`,
    renderLink(openapi, 'OpenAPI document'),
    renderLink(postman, 'Postman collection'),
    renderLink(bruno, 'Bruno collection'),
  ])

const renderStartPage = ({ docs, liveness, readiness, api_catalog, versions }: ServiceLinks): string =>
  renderDocument({
    title: identity.title,
    style: STYLE,
    body: `<main>
<header>
<img src="${ICON}" alt="">
<div><h1>${escapeHtml(identity.title)}</h1><p>Release ${escapeHtml(release)}</p></div>
</header>
<a class="docs" href="${escapeHtml(docs)}">Documentation</a>
<div class="panels">
${versions.map(renderVersion).join('\n')}
${renderPanel('Service', [
  renderLink(liveness, 'Liveness'),
  renderLink(readiness, 'Readiness'),
  renderLink(api_catalog, 'API catalog'),
])}
</div>
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
  const page = createAsset('text/html; charset=utf-8', renderStartPage(links))
  const index = createJsonAsset({ name: identity.name, version: release, links })

  app.get('/', { config: { access: 'public' } }, async (request, reply) => {
    addVary(reply, 'Accept')
    reply.header('Link', linkHeader)
    if (!prefersHtml(request.raw)) return sendAsset(request, reply, index)
    reply.helmet(POLICY)
    return sendAsset(request, reply, page)
  })

  serveAsset(app, '/favicon.ico', () => createAsset('image/svg+xml', ICON_SVG))
  const createCatalog = () => createAsset(CATALOG_TYPE, JSON.stringify(buildCatalog(links)))
  serveAsset(app, API_CATALOG_PATH, createCatalog, { headers: { Link: linkHeader } })
}
