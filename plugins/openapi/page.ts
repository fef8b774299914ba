/** Serves the documentation page: Scalar, without external resources, under a strict Content-Security-Policy. */
import { createHash } from 'node:crypto'
import helmet from '@fastify/helmet'
import type { ApiReferenceConfiguration } from '@scalar/fastify-api-reference'
import Fastify, { type FastifyInstance } from 'fastify'
import { cachePromise } from '../../lib/cached-promise.ts'
import staticCache, { addTag, sendTagged } from './static-cache.ts'

const SELF = ["'self'"]

/**
 * Returns the Content-Security-Policy of the page.
 * @param scripts the hashes of inline scripts
 * @param servers the origins that the page may send requests to
 */
const getPolicy = (scripts: readonly string[], servers: readonly string[]) => ({
  contentSecurityPolicy: {
    useDefaults: false,
    directives: {
      defaultSrc: ["'none'"],
      scriptSrc: [...SELF, ...scripts],
      // Scalar sets style attributes at run time, which neither a hash nor a nonce can allow.
      styleSrc: [...SELF, "'unsafe-inline'"],
      imgSrc: [...SELF, 'data:', 'blob:'],
      fontSrc: SELF,
      connectSrc: [...SELF, ...servers],
      workerSrc: [...SELF, 'blob:'],
      baseUri: ["'none'"],
      formAction: ["'none'"],
      frameAncestors: ["'none'"],
    },
  },
})

const hashScript = (script: string) => `'sha256-${createHash('sha256').update(script).digest('base64')}'`

/** Returns the hashes of the inline scripts: the one that starts Scalar with its configuration. */
const hashInlineScripts = (html: string) =>
  html
    .split('<script')
    .slice(1)
    .map((element) => [element.split('>', 1)[0] ?? '', element.split('</script>', 1)[0] ?? ''] as const)
    .filter(([attributes]) => !attributes.includes(' src='))
    .map(([attributes, element]) => hashScript(element.slice(attributes.length + 1)))

/** Inline favicon: browsers would otherwise request /favicon.ico, which does not exist. */
const icon = `data:image/svg+xml,${encodeURIComponent(
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><rect width="16" height="16" rx="4" fill="#2563eb"/><path d="M5 4 3 8l2 4M11 4l2 4-2 4" fill="none" stroke="#fff" stroke-width="1.5"/></svg>',
)}`

const css = `
  .scalar-app { --scalar-radius: 4px; }
  a[href*="scalar.com"], .darklight-reference { display: none !important; }
`

const getConfiguration = (versions: readonly number[]): Partial<ApiReferenceConfiguration> => ({
  pageTitle: 'resource-api',
  sources: versions.map((version, i) => ({
    title: `Version ${version}`,
    slug: `v${version}`,
    // Relative to the page, so that a proxy can add a path prefix.
    url: `../openapi/v${version}.json`,
    default: i === 0,
    agent: { disabled: true },
  })),
  authentication: { preferredSecurityScheme: 'apiKey' },
  theme: 'default',
  withDefaultFonts: false,
  telemetry: false,
  mcp: { disabled: true },
  orderSchemaPropertiesBy: 'preserve',
  hideClientButton: true,
  showDeveloperTools: 'never',
  documentDownloadType: 'json',
  favicon: icon,
  defaultHttpClient: { targetKey: 'shell', clientKey: 'curl' },
  customCss: css,
})

/** Renders Scalar's files in a temporary app. Scalar has four megabytes, so it is loaded on the first request. */
async function renderScalar(versions: readonly number[]) {
  const { default: scalar } = await import('@scalar/fastify-api-reference')
  const app = Fastify()
  await app.register(scalar, { routePrefix: '/docs', configuration: getConfiguration(versions) })
  const [html, script] = await Promise.all([app.inject('/docs/'), app.inject('/docs/js/scalar.js')])
  return {
    html: addTag(html.payload),
    script: addTag(script.payload),
    scripts: hashInlineScripts(html.payload),
  }
}

export interface PageOptions {
  versions: readonly number[]
  publicUrl: string | undefined
}

export default async function page(app: FastifyInstance, { versions, publicUrl }: PageOptions) {
  // The documents name PUBLIC_URL as their server, so the page sends requests there, wherever it was opened.
  const servers = publicUrl === undefined ? [] : [new URL(publicUrl).origin]
  await app.register(helmet, {
    ...getPolicy([], servers),
    // Strict-Transport-Security concerns the whole host and is not set by its documentation.
    strictTransportSecurity: false,
    xFrameOptions: { action: 'deny' },
    // Obsolete: X-XSS-Protection introduced vulnerabilities, X-Download-Options was for Internet Explorer.
    xXssProtection: false,
    xDownloadOptions: false,
  })
  await app.register(staticCache)
  const files = cachePromise(() => renderScalar(versions))
  app.get('/docs/', { config: { access: 'public' } }, async (request, reply) => {
    const { pathname } = new URL(request.url, 'http://localhost')
    // The URLs in the page are relative, and need the trailing slash.
    if (!pathname.endsWith('/')) return reply.redirect(`${pathname}/`, 301)
    const { html, scripts } = await files()
    // Also for a 304: its policy replaces the one that the browser has cached with the page.
    await reply.helmet(getPolicy(scripts, servers))
    return sendTagged(reply, 'text/html; charset=utf-8', html)
  })
  app.get('/docs/js/scalar.js', { config: { access: 'public' } }, async (_request, reply) => {
    const { script } = await files()
    return sendTagged(reply, 'application/javascript; charset=utf-8', script)
  })
}
