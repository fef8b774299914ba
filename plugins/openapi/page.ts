/** Serves the documentation page: Scalar, without external resources, under a strict Content-Security-Policy. */
import helmet from '@fastify/helmet'
import type { FastifyInstance } from 'fastify'
import { cachePromise } from '../../lib/cached-promise.ts'
import staticCache, { sendAsset } from './assets.ts'
import { renderScalar, type ScalarOptions } from './scalar.ts'

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

export default async function page(app: FastifyInstance, options: ScalarOptions) {
  const { publicUrl } = options
  // With PUBLIC_URL the page sends requests there, wherever it was opened; otherwise to its own origin.
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
  const getFiles = cachePromise(() => renderScalar(options))
  app.get('/docs/', { config: { access: 'public' } }, async (request, reply) => {
    const { pathname } = new URL(request.url, 'http://localhost')
    // The URLs in the page are relative, and need the trailing slash. So is this one: a proxy can add a path prefix.
    if (!pathname.endsWith('/')) return reply.redirect('docs/', 301)
    const { html, inlineScripts } = await getFiles()
    // Also for a 304: its policy replaces the one that the browser has cached with the page.
    await reply.helmet(getPolicy(inlineScripts, servers))
    return sendAsset(request, reply, html)
  })
  app.get('/docs/js/scalar.js', { config: { access: 'public' } }, async (request, reply) => {
    const { script } = await getFiles()
    return sendAsset(request, reply, script)
  })
}
