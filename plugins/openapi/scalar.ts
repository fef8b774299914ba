/** Renders Scalar, the documentation page, and reads the compressed forms of its script. */
import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import type { ApiReferenceConfiguration } from '@scalar/fastify-api-reference'
import Fastify from 'fastify'
import { getErrorCode } from '../../lib/error-code.ts'
import { identity } from '../../lib/identity.ts'
import { type Compression, createAsset } from './assets.ts'
import { ICON } from './icon.ts'

const hashScript = (script: string) => `'sha256-${createHash('sha256').update(script).digest('base64')}'`

/** Returns the hashes of the inline scripts: the one that starts Scalar with its configuration. */
const hashInlineScripts = (html: string) =>
  html
    .split('<script')
    .slice(1)
    .map((element) => [element.split('>', 1)[0] ?? '', element.split('</script>', 1)[0] ?? ''] as const)
    .filter(([attributes]) => !attributes.includes(' src='))
    .map(([attributes, element]) => hashScript(element.slice(attributes.length + 1)))

/** Hides links to Scalar, and that of `externalDocs`, which leads to this page. */
const css = `
  .scalar-app { --scalar-radius: 4px; }
  a[href*="scalar.com"], a[href$="/docs"], .darklight-reference { display: none !important; }
`

export interface ScalarOptions {
  versions: readonly number[]
  publicUrl: string | undefined
}

const getConfiguration = ({ versions, publicUrl }: ScalarOptions): Partial<ApiReferenceConfiguration> => ({
  pageTitle: identity.title,
  sources: versions.map((version, i) => ({
    title: `Version ${version}`,
    slug: `v${version}`,
    // Relative to the page, so that a proxy can add a path prefix.
    url: `../openapi/v${version}.json`,
    default: i === 0,
    agent: { disabled: true },
  })),
  // The documents name the address that the server listens on. The page may have been opened under another one, such as
  // a forwarded port, and the browser lets it send requests to its own origin only.
  ...(publicUrl === undefined && { servers: [{ url: '/' }] }),
  authentication: { preferredSecurityScheme: 'apiKey' },
  theme: 'default',
  withDefaultFonts: false,
  telemetry: false,
  orderSchemaPropertiesBy: 'preserve',
  hideClientButton: true,
  showDeveloperTools: 'never',
  documentDownloadType: 'json',
  favicon: ICON,
  customCss: css,
})

/** Returns the file with the compressed script that `npm run build` wrote. It exists beside the compiled module only. */
export const getCompressedFile = (hash: string, encoding: Compression, base = import.meta.url) =>
  new URL(`./compressed/${hash}.${encoding}`, base)

async function readCompressed(hash: string, encoding: Compression): Promise<Buffer | undefined> {
  try {
    return await readFile(getCompressedFile(hash, encoding))
  } catch (error) {
    if (getErrorCode(error) === 'ENOENT') return undefined
    throw error
  }
}

/** Renders Scalar's files in a temporary app. Scalar has four megabytes, so it is loaded on the first request. */
export async function renderScalar(options: ScalarOptions) {
  const { default: scalar } = await import('@scalar/fastify-api-reference')
  const app = Fastify()
  await app.register(scalar, { routePrefix: '/docs', configuration: getConfiguration(options) })
  const [html, script] = await Promise.all([app.inject('/docs/'), app.inject('/docs/js/scalar.js')])
  return {
    html: createAsset('text/html; charset=utf-8', html.payload),
    script: createAsset('application/javascript; charset=utf-8', script.payload, readCompressed),
    /** The hashes of the inline scripts, for the content security policy. */
    inlineScripts: hashInlineScripts(html.payload),
  }
}
