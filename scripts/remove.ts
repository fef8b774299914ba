/**
 * `npm run remove -- orders posts products`: removes resources: their files, their entries in `src/own.ts`, and with a
 * migration their tables. Exit code 2: nothing was changed.
 */
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { UsageError } from '../src/cli/usage-error.ts'
import { format } from './new/render.ts'
import { selectFiles, withoutResource } from './own-files.ts'
import { ensureClean, listFiles, runScript } from './run.ts'

const USAGE =
  'Usage: npm run remove -- NAME... [--force], for example npm run remove -- orders posts products'
const OWN = 'src/own.ts'
const CODES = 'schemas/own-codes.ts'
/** The files that would not compile without a file that they import. */
const PRODUCT = /^(src|plugins|schemas|drizzle|lib|scripts)\/.*\.ts$/

/** Returns the files that a file imports, relative to the repository. */
const listImports = (file: string): string[] =>
  [...readFileSync(file, 'utf8').matchAll(/\bfrom '(\.[^']+)'/g)].map(([, path = '']) =>
    normalize(join(dirname(file), path)),
  )

/** @throws UsageError if a resource does not exist, or if files that remain import those of one */
function checkRemoval(names: readonly string[], files: readonly string[], removed: readonly string[]): void {
  const mistakes = names
    .filter((name) => !removed.includes(`plugins/${name}.ts`))
    .map((name) => `There is no plugins/${name}.ts`)
  const remaining = files.filter((file) => PRODUCT.test(file) && file !== OWN && !removed.includes(file))
  for (const file of remaining) {
    const imported = listImports(file).filter((path) => removed.includes(path))
    mistakes.push(
      ...imported.map((path) => `${file} imports ${path}: remove its resource too, or the import`),
    )
  }
  if (mistakes.length > 0) throw new UsageError(mistakes.join('\n'))
}

/** Returns the pages that still have the names, in text that is not generated. */
const listPages = (names: readonly string[]): string[] =>
  listFiles().filter(
    (file) =>
      /^(README|CONTRIBUTING|docs\/.*)\.md$/.test(file) &&
      new RegExp(`\\b(${names.join('|')})\\b`).test(readFileSync(file, 'utf8')),
  )

/** Removes the codes of one's own that only removed files name. */
function removeCodes(files: readonly string[], removed: readonly string[]): void {
  const code = files.filter((file) => PRODUCT.test(file) && file !== CODES)
  const isNamed = (name: string, among: readonly string[]) =>
    among.some((file) => new RegExp(`\\b${name}\\b`).test(readFileSync(file, 'utf8')))
  const remaining = code.filter((file) => !removed.includes(file))
  const text = readFileSync(CODES, 'utf8')
  const kept = text.replace(/^ {2}(\w+): .*,\n/gm, (line, name: string) =>
    isNamed(name, removed) && !isNamed(name, remaining) ? '' : line,
  )
  if (kept !== text) writeFileSync(CODES, format(CODES, kept))
}

function remove(names: readonly string[]): void {
  const files = listFiles().filter((file) => existsSync(file))
  const removed = selectFiles(files, names)
  checkRemoval(names, files, removed)
  removeCodes(files, removed)
  for (const file of removed) rmSync(file)
  writeFileSync(OWN, format(OWN, names.reduce(withoutResource, ownText)))
  runScript('migrations', ['--name', `remove-${names.join('-')}`])
  runScript('docs')
  console.log(`Removed ${names.join(', ')}:
${removed.map((file) => `  ${file}`).join('\n')}
The last migration in drizzle/own-migrations deletes the tables with their rows.
Pages that may still show them:
${listPages(names)
  .map((file) => `  ${file}`)
  .join('\n')}
Next:
  npm run build && npm run lint && npm test`)
}

const ownText = readFileSync(OWN, 'utf8')

try {
  const args = process.argv.slice(2)
  const names = args.filter((arg) => !arg.startsWith('--'))
  if (names.length === 0 || args.some((arg) => arg.startsWith('--') && arg !== '--force'))
    throw new UsageError(USAGE)
  if (!args.includes('--force')) ensureClean()
  remove(names)
} catch (error) {
  console.error(error instanceof Error ? error.message : error)
  process.exitCode = error instanceof UsageError ? 2 : 1
}
