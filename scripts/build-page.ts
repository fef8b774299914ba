/** Adds Scalar's script to the build, compressed, which takes four seconds, and nothing if it has not changed. */
import { existsSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { requireNodeVersion } from '../packages/http/src/process/node-version.ts'

// The build, too, has to say that Node.js is too old.
requireNodeVersion()
const { hashText } = await import('../packages/api/src/preconditions/preconditions.ts')
const { COMPRESSIONS, compress } = await import('../packages/http/src/assets/assets.ts')
const { getCompressedFile, loadScalar } = await import('../packages/docs/src/openapi/scalar.ts')

/** Brotli's quality. The highest, 11, takes 18 s instead of 4 s and saves 2 %. */
const BROTLI_QUALITY = 10

/** The compiled module, which reads the files at run time. */
const compiledModule = new URL('../packages/docs/dist/openapi/scalar.js', import.meta.url)

const script = await loadScalar()
for (const encoding of COMPRESSIONS) {
  const file = getCompressedFile(hashText(script.content), encoding, compiledModule.href)
  if (existsSync(file)) continue
  await mkdir(new URL('.', file), { recursive: true })
  await writeFile(file, await compress(script.content, encoding, BROTLI_QUALITY))
}
