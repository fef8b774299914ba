/** The page that shows the documents: Scalar, with nothing from elsewhere, under a policy that lets in nothing else. */
import { createHash } from 'node:crypto'
import helmet from '@fastify/helmet'
import scalar from '@scalar/fastify-api-reference'
import type { FastifyInstance } from 'fastify'

const SELF = ["'self'"]

/** What the page may load. `scripts` are the hashes of those that stand in it. */
const policy = (scripts: readonly string[]) => ({
  contentSecurityPolicy: {
    useDefaults: false,
    directives: {
      defaultSrc: ["'none'"],
      scriptSrc: [...SELF, ...scripts],
      // Scalar sets styles of elements as it draws, which neither a hash nor a nonce can let in.
      styleSrc: [...SELF, "'unsafe-inline'"],
      imgSrc: [...SELF, 'data:', 'blob:'],
      fontSrc: SELF,
      connectSrc: SELF,
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
  [...html.matchAll(/<script(?![^>]*\bsrc=)[^>]*>([\s\S]*?)<\/script>/g)].map(([, script = '']) =>
    hashOf(script),
  )

const css = `
  .scalar-app { --scalar-radius: 4px; }
  a[href*="scalar.com"], .darklight-reference { display: none !important; }
`

export default async function page(app: FastifyInstance, { versions }: { versions: readonly number[] }) {
  await app.register(helmet, {
    ...policy([]),
    // Where the service speaks HTTPS is said for the whole of it, not by its documentation.
    strictTransportSecurity: false,
  })
  app.addHook('onSend', async (_request, reply, payload) => {
    const type = String(reply.getHeader('content-type') ?? '')
    if (typeof payload === 'string' && type.startsWith('text/html'))
      await reply.helmet(policy(scriptsOf(payload)))
    return payload
  })
  await app.register(scalar, {
    routePrefix: '/docs',
    configuration: {
      pageTitle: 'resource-api',
      sources: versions.map((version, i) => ({
        title: `Version ${version}`,
        slug: `v${version}`,
        url: `/openapi/v${version}.json`,
        default: i === 0,
        agent: { disabled: true },
      })),
      authentication: { preferredSecurityScheme: 'apiKey' },
      theme: 'default',
      withDefaultFonts: false,
      telemetry: false,
      mcp: { disabled: true },
      hideClientButton: true,
      showDeveloperTools: 'never',
      documentDownloadType: 'json',
      defaultHttpClient: { targetKey: 'shell', clientKey: 'curl' },
      customCss: css,
    },
  })
}
