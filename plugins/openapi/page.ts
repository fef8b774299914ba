/** The page that shows the documents: Scalar, with nothing from elsewhere, under a policy that lets in nothing else. */
import { createHash } from 'node:crypto'
import helmet from '@fastify/helmet'
import type { ApiReferenceConfiguration } from '@scalar/fastify-api-reference'
import Fastify, { type FastifyInstance } from 'fastify'
import { cachePromise } from '../../lib/cached-promise.ts'
import unchanging, { sendTagged, withTag } from './static-cache.ts'

const SELF = ["'self'"]

/** What the page may load, and whom it may ask. `scripts` are the hashes of those that stand in it. */
const policy = (scripts: readonly string[], servers: readonly string[]) => ({
  contentSecurityPolicy: {
    useDefaults: false,
    directives: {
      defaultSrc: ["'none'"],
      scriptSrc: [...SELF, ...scripts],
      // Scalar sets styles of elements as it draws, which neither a hash nor a nonce can let in.
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

const hashOf = (script: string) => `'sha256-${createHash('sha256').update(script).digest('base64')}'`

/** The scripts that stand in the page itself: the one that starts Scalar with its settings. */
const scriptsOf = (html: string) =>
  html
    .split('<script')
    .slice(1)
    .map((rest) => {
      const end = rest.indexOf('>')
      return { attributes: rest.slice(0, end), script: rest.slice(end + 1, rest.indexOf('</script>')) }
    })
    .filter(({ attributes }) => !/ src=/.test(attributes))
    .map(({ script }) => hashOf(script))

/** A sign of its own, in the page: a browser would otherwise ask for one that is not there. */
const icon = `data:image/svg+xml,${encodeURIComponent(
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><rect width="16" height="16" rx="4" fill="#2563eb"/><path d="M5 4 3 8l2 4M11 4l2 4-2 4" fill="none" stroke="#fff" stroke-width="1.5"/></svg>',
)}`

const css = `
  .scalar-app { --scalar-radius: 4px; }
  a[href*="scalar.com"], .darklight-reference { display: none !important; }
`

/** What Scalar is told of the documents. */
const configurationOf = (versions: readonly number[]): Partial<ApiReferenceConfiguration> => ({
  pageTitle: 'resource-api',
  sources: versions.map((version, i) => ({
    title: `Version ${version}`,
    slug: `v${version}`,
    // Seen from the page, so that a proxy may put a path in front of both.
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

/** What Scalar answers, had from an app of its own: it is four megabytes, loaded where somebody asks. */
async function askScalar(versions: readonly number[]) {
  const { default: scalar } = await import('@scalar/fastify-api-reference')
  const app = Fastify()
  await app.register(scalar, { routePrefix: '/docs', configuration: configurationOf(versions) })
  const [html, script] = await Promise.all([app.inject('/docs/'), app.inject('/docs/js/scalar.js')])
  return { html: withTag(html.payload), script: withTag(script.payload), scripts: scriptsOf(html.payload) }
}

export interface PageOptions {
  versions: readonly number[]
  publicUrl: string | undefined
}

export default async function page(app: FastifyInstance, { versions, publicUrl }: PageOptions) {
  // The documents name that address: operations are tried out there, also from a page that was opened under another.
  const servers = publicUrl === undefined ? [] : [new URL(publicUrl).origin]
  await app.register(helmet, {
    ...policy([], servers),
    // Where the service speaks HTTPS is said for the whole of it, not by its documentation.
    strictTransportSecurity: false,
    xFrameOptions: { action: 'deny' },
    // For browsers that are gone: X-XSS-Protection made holes of its own, X-Download-Options was for Internet Explorer.
    xXssProtection: false,
    xDownloadOptions: false,
  })
  await app.register(unchanging)
  const files = cachePromise(() => askScalar(versions))
  app.get('/docs/', async (request, reply) => {
    const { pathname } = new URL(request.url, 'http://localhost')
    // The page's own addresses are relative to it.
    if (!pathname.endsWith('/')) return reply.redirect(`${pathname}/`, 301)
    const { html, scripts } = await files()
    // Of a 304 too: its policy replaces the one that the browser keeps with the page.
    await reply.helmet(policy(scripts, servers))
    return sendTagged(reply, 'text/html; charset=utf-8', html)
  })
  app.get('/docs/js/scalar.js', async (_request, reply) => {
    const { script } = await files()
    return sendTagged(reply, 'application/javascript; charset=utf-8', script)
  })
}
