/**
 * Runs TypeScript as it stands, by `--import`: esbuild strips the types, once per content of a file. Nothing else is
 * touched, so that a test starts in half the time that tsx takes.
 */
import { createHash } from 'node:crypto'
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { register } from 'node:module'
import { fileURLToPath } from 'node:url'
import { setFlagsFromString } from 'node:v8'
import { isMainThread } from 'node:worker_threads'

const CACHE = fileURLToPath(new URL('../../node_modules/.cache/resource-api/typescript/', import.meta.url))

const compile = async (file, text) => {
  const { transform } = await import('esbuild')
  const { code } = await transform(text, {
    loader: 'ts',
    format: 'esm',
    target: 'node20',
    sourcemap: 'inline',
    sourcesContent: false,
    sourcefile: file,
  })
  return code
}

/** One of the hooks of `node:module`; the module keeps its own address, and so its place in stacks and reports. */
export async function load(url, context, next) {
  if (!/^file:[^?]*\.ts(\?|$)/.test(url)) return next(url, context)
  const file = fileURLToPath(url)
  const text = readFileSync(file, 'utf8')
  const kept = CACHE + createHash('sha1').update(`${file}\n${text}`).digest('hex')
  let source
  try {
    source = readFileSync(kept)
  } catch {
    source = await compile(file, text)
    mkdirSync(CACHE, { recursive: true })
    // Several processes may get here at once: each writes its own, and the last name given stays.
    const draft = `${kept}.${process.pid}`
    writeFileSync(draft, source)
    renameSync(draft, kept)
  }
  return { format: 'module', source, shortCircuit: true }
}

if (isMainThread) {
  register(import.meta.url)
  // A test's queries are few and all different: PGlite costs less as it is first compiled than made better meanwhile.
  setFlagsFromString('--liftoff-only')
}
