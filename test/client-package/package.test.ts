/** The client package is small, has one dependency, and its types are those of the committed document. */
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { gzipSync } from 'node:zlib'
import { build } from 'esbuild'
import t from 'tap'

const MAX_SIZE_BYTES = 15_000
const folder = fileURLToPath(new URL('../../client/', import.meta.url))

t.test('the types are generated from the committed document', async (t) => {
  const generate = promisify(execFile)('npm', ['run', 'generate', '--', '--check'], { cwd: folder })
  const isCurrent = await generate.then(
    () => true,
    () => false,
  )
  t.ok(isCurrent, 'client/src/openapi.ts is current; if not, run: npm run client')
})

t.test('the package has less than 15 kB and runs without Node.js', async (t) => {
  const { outputFiles, metafile } = await build({
    absWorkingDir: folder,
    entryPoints: ['src/index.ts'],
    bundle: true,
    minify: true,
    format: 'esm',
    // Modules of Node.js would be an error.
    platform: 'browser',
    write: false,
    metafile: true,
  })
  const size = gzipSync(outputFiles[0]?.contents ?? '').length
  t.comment(`${size} bytes, minified and compressed`)
  t.ok(size > 1_000 && size < MAX_SIZE_BYTES, `${size} bytes`)
  const packages = Object.keys(metafile.inputs).map(
    (path) => /node_modules\/(.*?)\//.exec(path)?.[1] ?? 'client',
  )
  t.same([...new Set(packages)].sort(), ['client', 'openapi-fetch'])
  const { dependencies } = JSON.parse(readFileSync(`${folder}package.json`, 'utf8'))
  t.same(Object.keys(dependencies), ['openapi-fetch'])
})
