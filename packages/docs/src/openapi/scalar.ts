/** The configuration and the script of Scalar, which renders the documentation page, with its compressed forms. */
import { readFile } from 'node:fs/promises'
import { getErrorCode } from '@resource-api/database'
import { type Asset, type Compression, createAsset } from '@resource-api/http/internal'
import type { ApiReferenceConfiguration } from '@scalar/fastify-api-reference'
import Fastify from 'fastify'

const HIDDEN_LANGUAGES =
  'c clojure csharp dart fsharp go http java kotlin node objc ocaml php powershell r ruby rust swift'

/** All but curl, JavaScript with fetch, and Python with requests. */
const HIDDEN_CLIENTS = {
  ...Object.fromEntries(HIDDEN_LANGUAGES.split(' ').map((language) => [language, true])),
  js: ['axios', 'jquery', 'ofetch', 'xhr'],
  python: ['python3', 'httpx_sync', 'httpx_async'],
  shell: ['httpie', 'wget'],
}

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
  authentication: { preferredSecurityScheme: 'apiKey' },
  defaultHttpClient: { targetKey: 'shell', clientKey: 'curl' },
  hiddenClients: HIDDEN_CLIENTS,
  // Operations show the schemas of their bodies.
  hideModels: true,
  hideClientButton: true,
  defaultOpenFirstTag: false,
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

/**
 * Generators of samples in Scalar's script that leave out what a program needs to run and to print the response, and its
 * name of a credential, which the guide calls otherwise.
 */
const SAMPLE_REPAIRS: readonly (readonly [generator: RegExp, repaired: string])[] = [
  [
    /(target:"python",\s*client:"requests",\s*title:"Requests",\s*generate:\(e,t\)=>)(\w+\("requests",e,t\))/g,
    '$1"import requests\\n\\nresponse = "+$2+"\\nprint(response.text)"',
  ],
  [
    /\b(\w{1,8})(=\{\s*target:"js",\s*client:"fetch",\s*title:"Fetch",\s*)generate\(e\)\{/g,
    '$1$2generate:e=>$1.request(e)+"\\n  .then((response) => response.text())\\n  .then(console.log)",request(e){',
  ],
  [/"YOUR_SECRET_TOKEN"(;if\(!\w\.name\)continue)/g, '"YOUR_API_KEY"$1'],
  [
    /("bearer"===\w\.scheme\)\{\s*const \w=\w\["x-scalar-secret-token"\]\|\|)"YOUR_SECRET_TOKEN"/g,
    '$1"YOUR_ACCESS_TOKEN"',
  ],
]

/** @throws Error if a generator is not in the script exactly once */
function repairSamples(script: string): string {
  return SAMPLE_REPAIRS.reduce((text, [generator, repaired]) => {
    if (text.match(generator)?.length !== 1)
      throw new Error(`Scalar has another generator of samples than ${generator}`)
    return text.replace(generator, repaired)
  }, script)
}

/** Returns the script of Scalar, after its license. It has four megabytes, so it is loaded on the first request. */
export async function loadScalar(): Promise<Asset> {
  const { default: scalar } = await import('@scalar/fastify-api-reference')
  const app = Fastify()
  // The plugin needs a document for its own page, which is not used.
  await app.register(scalar, { routePrefix: '/docs', configuration: { content: {} } })
  const script = await app.inject('/docs/js/scalar.js')
  const entry = import.meta.resolve('@scalar/fastify-api-reference')
  const license = await readFile(new URL('../LICENSE', entry), 'utf8')
  return createAsset(
    'application/javascript; charset=utf-8',
    `/*!\n${license.trim()}\n*/\n${repairSamples(script.payload)}`,
    readCompressed,
  )
}
