/**
 * Runs TypeScript files, by `--import`: esbuild strips the types, once per version of a file. A test starts in half
 * the time that tsx takes.
 */
import { createHash } from 'node:crypto'
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { register } from 'node:module'
import { fileURLToPath } from 'node:url'
import { setFlagsFromString } from 'node:v8'
import { isMainThread } from 'node:worker_threads'

const CACHE = fileURLToPath(new URL('../../../node_modules/.cache/resource-api/typescript/', import.meta.url))

/** Replaces the package async-hook-domain. */
const ERROR_DOMAIN = new URL('error-domain.js', import.meta.url).href

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

/** The `load` hook of `node:module`. A module keeps its URL, so that stack traces show the source file. */
export async function load(url, context, next) {
  if (url.endsWith('/node_modules/async-hook-domain/dist/mjs/index.js')) return next(ERROR_DOMAIN, context)
  if (!/^file:[^?]*\.ts(\?|$)/.test(url)) return next(url, context)
  const file = fileURLToPath(url)
  const text = readFileSync(file, 'utf8')
  const cached = CACHE + createHash('sha1').update(`${file}\n${text}`).digest('hex')
  let source
  try {
    source = readFileSync(cached)
  } catch {
    source = await compile(file, text)
    mkdirSync(CACHE, { recursive: true })
    // Concurrent processes each write a file of their own; the last rename wins.
    const draft = `${cached}.${process.pid}`
    writeFileSync(draft, source)
    renameSync(draft, cached)
  }
  return { format: 'module', source, shortCircuit: true }
}

if (isMainThread) {
  register(import.meta.url)
  // A test runs few and different queries: optimizing PGlite's WebAssembly costs more time than it saves.
  setFlagsFromString('--liftoff-only')
}
