#!/usr/bin/env node
/** `npm create resource-api my-api`: writes a new application, or newer packages into one that has their tarballs. */
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import { createInterface } from 'node:readline/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import mustache from 'mustache'
import { edit } from './edit.ts'
import { UsageError } from './usage-error.ts'

/** What the build takes from the application of this repository. */
const SOURCES = fileURLToPath(new URL('../dist/application/', import.meta.url))
/** What only a new application has. A leading underscore stands for a dot: npm would leave such a file out. */
const OWN = fileURLToPath(new URL('../application/', import.meta.url))

const HELP = `Writes a new application.

  npm create resource-api FOLDER [-- --example none|shop]

  --example WHICH   none, or shop: products, orders that take their stock, posts of users
  --packages DIR    tarballs of the packages, instead of those of the registry
  --update          replace the tarballs of the application in FOLDER by those of --packages
  --help`

const EXAMPLES = ['none', 'shop'] as const
type Example = (typeof EXAMPLES)[number]

const isExample = (text: string): text is Example => EXAMPLES.some((example) => example === text)

/** The resources of the example. Users with profiles, credentials and events are those of every application. */
const SHOP = 'orders|posts|products'
const SHOP_FILE = new RegExp(`/(?:${SHOP}|demo-data)\\b|_shop\\.sql$|_snapshot\\.json$`)

const MATRIX = 'test/access-matrix.json'
/** What the promises have of the shop: the resources, and their transitions. */
const SHOP_PROMISES = new RegExp(`^( {2}| {4})"(?:${SHOP})": \\{\n[\\s\\S]*?^\\1\\},?\n`, 'gm')

const listFiles = (folder: string): string[] =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(folder.length).replaceAll('\\', '/'))

/** Files of a new application that are templates. */
const RENDERED = ['README.md', '_env.example']

/** Returns the text of a file without the shop. */
function removeShop(path: string, text: string): string {
  if (path.endsWith('_journal.json')) return edit(path, text, /"entries": \[[\s\S]*\]/, '"entries": []')
  if (path === 'src/application.ts') return edit(path, text, /violations: \{[^}]+\}/, 'violations: {}')
  if (path === 'src/commands.ts') return edit(path, text, /^ {2}loadDemoData: .+\n/m, '')
  if (path === MATRIX)
    return edit(path, edit(path, text, SHOP_PROMISES, ''), /^ {2}"moves": \{\n {2}\},\n/m, '')
  if (path !== 'src/own.ts') return text
  const imports = new RegExp(`(?:^import \\w+ from '../plugins/(?:${SHOP})\\.ts'\n)+`, 'm')
  return edit(path, edit(path, text, imports, ''), /resources: \[[^\]]+\]/, 'resources: []')
}

/** Returns the text of a file with what differs between this repository and each application. */
function makeOwn(path: string, text: string, name: string): string {
  // Its client is written from its own document, and is in no registry.
  if (path === 'src/application.ts')
    return edit(path, text, / {2}name: 'resource-api',\n {2}clientPackage: .+\n/, `  name: '${name}',\n`)
  // Another version is for clients that have called the first one.
  if (path === 'plugins/versions.ts')
    return edit(path, edit(path, text, /, v2 \}/, ' }'), /, \{ representation: v2 \}/, '')
  return text
}

type Manifest = Record<'dependencies' | 'devDependencies' | 'overrides', Record<string, string>>

/** Names the tarballs of a folder instead of versions. They are copied, so that a clone of the application has them. */
function usePackages(manifest: Manifest, from: string, to: string): void {
  const tarballs = readdirSync(from).filter((file) => file.endsWith('.tgz'))
  mkdirSync(join(to, 'vendor'), { recursive: true })
  for (const file of tarballs) {
    cpSync(join(from, file), join(to, 'vendor', file))
    const name = file.replace(/-\d.*$/, '').replace(/^resource-api-/, '@resource-api/')
    const { dependencies, devDependencies, overrides } = manifest
    // What only other packages need would be looked for in the registry.
    const group = [dependencies, devDependencies].find((each) => name in each) ?? overrides
    group[name] = `file:vendor/${file}`
  }
}

/** Writes the application. @throws UsageError if the folder has files */
function writeApplication(folder: string, example: Example, packages: string | undefined): void {
  const name = basename(folder)
  if (!/^[a-z0-9][a-z0-9._-]{0,99}$/.test(name))
    throw new UsageError(`"${name}" is not the name of a package; write lower-case letters, digits and "-"`)
  if (existsSync(folder) && readdirSync(folder).some((entry) => entry !== '.git'))
    throw new UsageError(`${folder} has files already; name a new folder`)
  const view = { name, shop: example === 'shop' }
  for (const [source, paths] of [SOURCES, OWN].map((each) => [each, listFiles(each)] as const))
    for (const path of paths) {
      if (path === 'package.json' || (example === 'none' && SHOP_FILE.test(path))) continue
      const text = readFileSync(join(source, path), 'utf8')
      const file = join(folder, path.replace(/^_/, '.'))
      mkdirSync(dirname(file), { recursive: true })
      const own = makeOwn(path, text, name)
      const rendered = RENDERED.includes(path) ? mustache.render(own, view, {}, { escape: String }) : own
      writeFileSync(file, example === 'none' ? removeShop(path, rendered) : rendered)
    }
  const manifest: Manifest = JSON.parse(readFileSync(join(SOURCES, 'package.json'), 'utf8'))
  if (packages !== undefined) usePackages(manifest, packages, folder)
  writeFileSync(join(folder, 'package.json'), `${JSON.stringify({ name, ...manifest }, null, 2)}\n`)
}

const isPackage = (name: string) => /^(?:@resource-api\/|create-resource-api$)/.test(name)

/**
 * Replaces the tarballs of an application. The lock file has their hashes, which npm would compare with those of files of
 * the same names: it resolves the packages again.
 * @throws UsageError if the folder has no application with tarballs
 */
function updatePackages(folder: string, packages: string): void {
  const file = join(folder, 'package.json')
  const found: Partial<Manifest> = existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : {}
  const { dependencies = {}, devDependencies = {}, overrides = {} } = found
  const groups = { dependencies, devDependencies, overrides }
  const tarballs = Object.values(groups).flatMap((group) =>
    Object.entries(group).filter(([name, from]) => isPackage(name) && `${from}`.startsWith('file:vendor/')),
  )
  if (tarballs.length === 0)
    throw new UsageError(
      `${folder} has no package.json that names tarballs in vendor: the packages of other applications come with npm update`,
    )
  const toPath = (from: string) => join(folder, from.slice('file:'.length))
  for (const [, from] of tarballs) rmSync(toPath(from), { force: true })
  usePackages(groups, packages, folder)
  // What the newer release does not have.
  for (const [name] of tarballs)
    for (const group of Object.values(groups))
      if (name in group && !existsSync(toPath(`${group[name]}`))) delete group[name]
  writeFileSync(file, `${JSON.stringify({ ...found, ...groups }, null, 2)}\n`)
  const lockFile = join(folder, 'package-lock.json')
  if (!existsSync(lockFile)) return
  const lock: { packages: Record<string, unknown> } = JSON.parse(readFileSync(lockFile, 'utf8'))
  for (const path of Object.keys(lock.packages))
    if (isPackage(path.replace(/^.*node_modules\//, ''))) delete lock.packages[path]
  writeFileSync(lockFile, `${JSON.stringify(lock, null, 2)}\n`)
}

/** Asks on a terminal for what the command line does not say. */
async function ask(question: string, fallback: string): Promise<string> {
  if (!process.stdin.isTTY) return fallback
  const lines = createInterface({ input: process.stdin, output: process.stderr })
  try {
    return (await lines.question(`${question} (${fallback}): `)).trim() || fallback
  } finally {
    lines.close()
  }
}

async function run(): Promise<void> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      example: { type: 'string' },
      packages: { type: 'string' },
      update: { type: 'boolean' },
      help: { type: 'boolean', short: 'h' },
    },
  })
  if (values.help) return console.log(HELP)
  if (positionals.length > 1) throw new UsageError(`Name one folder\n\n${HELP}`)
  const folder = resolve(positionals[0] ?? (await ask('Name of the application', 'my-api')))
  if (values.update) {
    if (values.packages === undefined) throw new UsageError('--update needs --packages')
    updatePackages(folder, values.packages)
    const steps = ['npm install', 'npx resource-api upgrade', 'npm run typecheck && npm test']
    return console.log(`Updated ${folder}. Next:\n\n  cd ${folder}\n  ${steps.join('\n  ')}`)
  }
  const example = values.example ?? (await ask('Example: none or shop', 'none'))
  if (!isExample(example)) throw new UsageError(`--example: choose from ${EXAMPLES.join(', ')}`)
  writeApplication(folder, example, values.packages)
  console.log(`Wrote ${folder}. Next:\n\n  cd ${folder}\n  npm install\n  npm start`)
}

try {
  await run()
} catch (error) {
  console.error(error instanceof Error ? error.message : error)
  process.exitCode = error instanceof UsageError || Object(error).code?.startsWith('ERR_PARSE_ARGS') ? 2 : 1
}
