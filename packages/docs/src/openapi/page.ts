/** Serves the documentation page: Scalar, without external resources, under a strict Content-Security-Policy. */
import { readFile } from 'node:fs/promises'
import type { FastifyHelmetRouteOptions } from '@fastify/helmet'
import { identity } from '@resource-api/database'
import type { Config } from '@resource-api/http/config'
import { createAsset, STATIC_CACHE, sendAsset, serveAsset } from '@resource-api/http/internal'
import type { FastifyInstance } from 'fastify'
import { listErrorFragments } from './error-codes.ts'
import { escapeHtml, renderDocument } from './html.ts'
import { getConfiguration, loadScalar } from './scalar.ts'

const SELF = ["'self'"]

/** The scripts of the page, as they are in the folder `browser`. */
const SCRIPTS = ['page', 'accessibility', 'storage']

const readBrowserFile = (name: string) => readFile(new URL(`./browser/${name}`, import.meta.url), 'utf8')

const loadBrowserScript = async (name: string) =>
  createAsset('application/javascript; charset=utf-8', await readBrowserFile(`${name}.js`))

/** The policy of the page, where it differs from that of the API. */
const createPolicy = (publicUrl: string | undefined): FastifyHelmetRouteOptions => ({
  helmet: {
    contentSecurityPolicy: {
      useDefaults: false,
      directives: {
        defaultSrc: ["'none'"],
        scriptSrc: SELF,
        // Scalar sets style attributes at run time, which neither a hash nor a nonce can allow.
        styleSrc: [...SELF, "'unsafe-inline'"],
        imgSrc: [...SELF, 'data:', 'blob:'],
        fontSrc: SELF,
        // With PUBLIC_URL the page sends requests there, wherever it was opened; otherwise to its own origin.
        connectSrc: [...SELF, ...(publicUrl === undefined ? [] : [new URL(publicUrl).origin])],
        workerSrc: [...SELF, 'blob:'],
        baseUri: ["'none'"],
        formAction: ["'none'"],
        frameAncestors: ["'none'"],
      },
    },
    crossOriginOpenerPolicy: true,
    originAgentCluster: true,
    xDnsPrefetchControl: true,
    xPermittedCrossDomainPolicies: true,
  },
})

const TITLE = `${identity.title}: API reference`
const DESCRIPTION =
  'The reference of the API: authentication, pagination, filtering, idempotency, errors, versions, limits, and every operation with examples.'

/** HTML for readers to whom the page cannot show the reference. */
const ALTERNATIVE =
  'The same content is in the OpenAPI documents, which <a href="../">the start page</a> links.'

/** JSON that can stand in a script element, which ends at `</script`. */
const toScriptJson = (value: unknown) => JSON.stringify(value).replaceAll('<', '\\u003c')

/** @param configuration what the script of the page reads */
const renderPage = (configuration: unknown, style: string): string =>
  renderDocument({
    title: TITLE,
    head: [`<meta name="description" content="${escapeHtml(DESCRIPTION)}">`],
    style,
    body: `<div id="app"></div>
<noscript><p>This page needs JavaScript. ${ALTERNATIVE}</p></noscript>
<p id="failure" role="alert" hidden>The reference could not be loaded. ${ALTERNATIVE}</p>
<script id="configuration" type="application/json">${toScriptJson(configuration)}</script>
<script src="js/storage.js" type="module"></script>
<script src="js/scalar.js" defer></script>
<script src="js/page.js" type="module"></script>`,
  })

export default async function page(
  app: FastifyInstance,
  { PUBLIC_URL: publicUrl }: Pick<Config, 'PUBLIC_URL'>,
) {
  const versions = app.versions.map(({ representation }) => representation.version)
  const policy = createPolicy(publicUrl)
  const html = createAsset(
    'text/html; charset=utf-8',
    renderPage(
      {
        version: `v${versions[0]}`,
        server: publicUrl ?? null,
        errors: listErrorFragments(),
        scalar: getConfiguration(versions),
      },
      await readBrowserFile('page.css'),
    ),
  )
  app.get('/docs/', { ...policy, config: { access: 'public' } }, async (request, reply) => {
    const { pathname } = new URL(request.url, 'http://localhost')
    // The URLs in the page are relative, and need the trailing slash. So is this one: a proxy can add a path prefix.
    if (!pathname.endsWith('/')) return reply.header('Cache-Control', STATIC_CACHE).redirect('docs/', 301)
    return sendAsset(request, reply, html)
  })
  serveAsset(app, '/docs/js/scalar.js', loadScalar, policy)
  for (const name of SCRIPTS) serveAsset(app, `/docs/js/${name}.js`, () => loadBrowserScript(name), policy)
}
