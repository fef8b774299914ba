/** Serves the documentation page: Scalar, without external resources, under a strict Content-Security-Policy. */
import { readFile } from 'node:fs/promises'
import type { FastifyHelmetRouteOptions } from '@fastify/helmet'
import type { Config } from '@resource-api/http/config'
import { createAsset, STATIC_CACHE, sendAsset, serveAsset } from '@resource-api/http/internal'
import type { FastifyInstance } from 'fastify'
import { renderPage } from './page-html.ts'
import { getConfiguration, loadScalar } from './scalar.ts'

const SELF = ["'self'"]

/** The scripts of the page, as they are in the folder `browser`. */
const SCRIPTS = ['theme', 'page', 'accessibility', 'session', 'credential', 'sign-in']

const loadBrowserScript = async (name: string) =>
  createAsset(
    'application/javascript; charset=utf-8',
    await readFile(new URL(`./browser/${name}.js`, import.meta.url), 'utf8'),
  )

type PageConfig = Pick<Config, 'APP_URL' | 'PUBLIC_URL'>

/** Returns where a forgotten password is reset, relative to the page. */
function getResetUrl({ APP_URL }: PageConfig): string {
  if (APP_URL === undefined) return '../account/reset'
  const url = new URL(APP_URL)
  url.searchParams.append('purpose', 'reset')
  return url.href
}

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
        // Its form is sent by a script.
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

export default async function page(app: FastifyInstance, config: PageConfig) {
  const { PUBLIC_URL: publicUrl } = config
  const versions = app.versions.map(({ representation }) => representation.version)
  const policy = createPolicy(publicUrl)
  const html = createAsset(
    'text/html; charset=utf-8',
    renderPage(
      {
        api: `${publicUrl ?? '..'}/api/v${versions[0]}`,
        version: `v${versions[0]}`,
        server: publicUrl ?? null,
        scalar: getConfiguration(versions),
      },
      app.mail && getResetUrl(config),
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
