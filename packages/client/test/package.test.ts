/** The client package is small, has two dependencies, and its types are those of the committed document. */
import { readFileSync } from 'node:fs'
import { basename } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import { build } from 'esbuild'
import t from 'tap'
import { renderClient } from '../../../scripts/client.ts'

const MAX_SIZE_BYTES = 15_000
const folder = fileURLToPath(new URL('../', import.meta.url))

t.test('the client of the example is generated from the committed document', async (t) => {
  for (const [file, text] of Object.entries(await renderClient()))
    t.equal(readFileSync(`${folder}../../${file}`, 'utf8'), text, `${file}; if not, run: npm run client`)
})

/** Bundles code that imports the package, for a browser. */
async function bundle(code: string) {
  const { outputFiles, metafile } = await build({
    absWorkingDir: folder,
    stdin: { contents: code, resolveDir: `${folder}src` },
    outdir: '/',
    bundle: true,
    splitting: true,
    minify: true,
    format: 'esm',
    // Modules of Node.js would be an error.
    platform: 'browser',
    write: false,
    metafile: true,
  })
  const entry = Object.entries(metafile.outputs).find(([, { entryPoint }]) => entryPoint !== undefined)
  const [entryPath = '', { inputs: entryInputs = {} } = {}] = entry ?? []
  const getSize = (files: typeof outputFiles) =>
    files.reduce((sum, { contents }) => sum + gzipSync(contents).length, 0)
  return {
    size: getSize(outputFiles),
    /** Of the file that is loaded first, without what it loads later. */
    entrySize: getSize(outputFiles.filter(({ path }) => path.endsWith(basename(entryPath)))),
    inputs: Object.keys(metafile.inputs).filter((path) => path !== '<stdin>'),
    entryInputs: Object.entries(entryInputs).flatMap(([path, { bytesInOutput }]) =>
      bytesInOutput > 0 ? [path] : [],
    ),
  }
}

const isParser = (path: string) => path.includes('eventsource-parser')

t.test('the package has less than 15 kB and runs without Node.js', async (t) => {
  const { size, inputs } = await bundle("export * from './index.ts'")
  t.comment(`${size} bytes, minified and compressed`)
  t.ok(size > 1_000 && size < MAX_SIZE_BYTES, `${size} bytes`)
  const packages = inputs.map((path) => /node_modules\/(.*?)\//.exec(path)?.[1] ?? 'client')
  t.same([...new Set(packages)].sort(), ['client', 'eventsource-parser', 'openapi-fetch'])
  const { dependencies } = JSON.parse(readFileSync(`${folder}package.json`, 'utf8'))
  t.same(Object.keys(dependencies), ['eventsource-parser', 'openapi-fetch'])
})

t.test('a program has only the parts that it uses', async (t) => {
  const client = await bundle("export { createClient } from './index.ts'")
  t.ok(client.inputs.some(isParser))
  t.notOk(client.entryInputs.some(isParser), 'the parser of the stream is loaded with the first stream')
  t.notOk(client.entryInputs.includes('src/verify-webhook.ts'))
  const webhooks = await bundle("export { verifyWebhook } from './index.ts'")
  t.same(webhooks.entryInputs, ['src/verify-webhook.ts'])
  t.ok(webhooks.entrySize < 2_000, `${webhooks.entrySize} bytes`)
})
