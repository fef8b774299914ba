/** The configuration and the script of Scalar, which renders the documentation page, with its compressed forms. */
import { readFile } from 'node:fs/promises'
import { getErrorCode } from '@resource-api/database'
import type { Asset } from '@resource-api/http/internal'
import { type Compression, createAsset } from '@resource-api/http/internal'
import type { ApiReferenceConfiguration } from '@scalar/fastify-api-reference'
import Fastify from 'fastify'

/** Returns the configuration of Scalar, without its functions, which are in browser/page.js. */
export const getConfiguration = (versions: readonly number[]): Partial<ApiReferenceConfiguration> => ({
  sources: versions.map((version, i) => ({
    title: `Version ${version}`,
    slug: `v${version}`,
    // Relative to the page, so that a proxy can add a path prefix.
    url: `v${version}.json`,
    default: i === 0,
    agent: { disabled: true },
  })),
  theme: 'default',
  withDefaultFonts: false,
  telemetry: false,
  orderSchemaPropertiesBy: 'preserve',
  hideClientButton: true,
  // Each operation has samples of its own, and the guide a section on client libraries.
  hiddenClients: true,
  // The guide is what a reader sees first.
  defaultOpenFirstTag: false,
  hideDarkModeToggle: true,
  showDeveloperTools: 'never',
  documentDownloadType: 'none',
})

/** Returns the file with the compressed script that `npm run build` wrote, in the folder of the compiled module. */
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

/** Returns the script of Scalar. It has four megabytes, so it is loaded on the first request. */
export async function loadScalar(): Promise<Asset> {
  const { default: scalar } = await import('@scalar/fastify-api-reference')
  const app = Fastify()
  // The plugin needs a document for its own page, which is not used.
  await app.register(scalar, { routePrefix: '/docs', configuration: { content: {} } })
  const script = await app.inject('/docs/js/scalar.js')
  return createAsset('application/javascript; charset=utf-8', script.payload, readCompressed)
}
