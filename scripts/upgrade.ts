/**
 * `npm run upgrade -- REMOTE/BRANCH`: merges a newer state of the product. What this project has changed by commands (the
 * name, removed resources, generated files) is first done to the product, before and after: git then merges only what
 * people wrote. Exit code 2: nothing was changed; 1: git has found conflicts, as in any merge.
 */
import { spawnSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { isObject } from '../lib/is-object.ts'
import { UsageError } from '../src/cli/usage-error.ts'
import { selectFiles } from './own-files.ts'
import { createReplace, renameFiles } from './rename-files.ts'
import { ensureClean, git, gitIn, listFiles, splitNames } from './run.ts'

/** Files of this project, and files that are generated from them: they stay as they are here. */
const KEPT =
  /^(src\/own\.ts|src\/config\/own-settings\.ts|\.env\.example|drizzle\/own-migrations\/.*|docs\/openapi\/.*|templates\/.*|client\/src\/(openapi|own-collections)\.ts|package-lock\.json)$/
/** Those that a project from before they existed gets from the product. */
const ADDED = /^(src\/config\/own-settings\.ts|\.env\.example|templates\/.*)$/
const MANIFEST = 'package.json'

/** The generated parts of pages: `<!-- name -->` to `<!-- /name -->`, and the usage of a command. */
const SECTIONS = [
  /<!-- ([\w-]+) -->\n[\s\S]*?\n<!-- \/\1 -->/g,
  /^```text\nUsage: (.+?)(?: [[<].*)?\n[\s\S]*?\n```$/gm,
]

/** Merges two changes of a JSON value by its members. Where both change the same value, this project's is taken. */
export function mergeJson(base: unknown, ours: unknown, theirs: unknown): unknown {
  if (isObject(ours) && isObject(theirs)) {
    const before = isObject(base) ? base : {}
    const names = [...new Set([...Object.keys(theirs), ...Object.keys(ours)])]
    return Object.fromEntries(
      names.flatMap((name) => {
        const value = mergeJson(before[name], ours[name], theirs[name])
        return value === undefined ? [] : [[name, value]]
      }),
    )
  }
  return JSON.stringify(ours) === JSON.stringify(base) ? theirs : ours
}

function readName(manifest: string): string {
  const value: unknown = JSON.parse(manifest)
  if (isObject(value) && typeof value.name === 'string') return value.name
  throw new UsageError(`${MANIFEST} has no name`)
}

/** Replaces the generated parts of a page by those of this project. */
function keepSections(path: string, ours: string): void {
  const text = readFileSync(path, 'utf8')
  const page = readFileSync(ours, 'utf8')
  const kept = SECTIONS.reduce((changed, pattern) => {
    const own = new Map([...page.matchAll(pattern)].map(([section, name]) => [name, section]))
    return changed.replace(pattern, (section, name: string) => own.get(name) ?? section)
  }, text)
  if (kept !== text) writeFileSync(path, kept)
}

/** Formats all files. What it cannot correct is no matter of the merge. */
function formatFiles(folder: string): void {
  const biome = resolve('node_modules/@biomejs/biome/bin/biome')
  spawnSync(process.execPath, [biome, 'check', '--write', '.'], { cwd: folder, stdio: 'ignore' })
}

interface Project {
  /** The name of the product here. */
  name: string
  files: ReadonlySet<string>
  /** Files of the product that were removed here. */
  removed: readonly string[]
}

/** Does to a working tree of the product what this project has done by commands. */
function adapt(folder: string, { name, files, removed }: Project): void {
  const from = readName(readFileSync(join(folder, MANIFEST), 'utf8'))
  if (from !== name) {
    renameFiles(folder, from, name)
    gitIn(folder, 'add', '--all')
  }
  const resources = removed.flatMap((file) => /^plugins\/([^/]+)\.ts$/.exec(file)?.[1] ?? [])
  const present = listFiles(folder)
  for (const file of [
    ...removed,
    ...selectFiles(present, resources),
    ...present.filter((each) => KEPT.test(each) && (files.has(each) || !ADDED.test(each))),
  ])
    rmSync(join(folder, file), { force: true })
  for (const file of [...files].filter((each) => KEPT.test(each))) {
    mkdirSync(dirname(join(folder, file)), { recursive: true })
    cpSync(file, join(folder, file))
  }
  for (const file of present.filter((each) => each.endsWith('.md') && files.has(each))) {
    if (existsSync(join(folder, file))) keepSections(join(folder, file), file)
  }
  // Another name makes other line breaks.
  if (from !== name) formatFiles(folder)
}

/**
 * Creates a commit of the product as this project would have it.
 * @param parents the parents of the commit
 */
function commitAdapted(
  commit: string,
  parents: readonly string[],
  project: Project,
  merged?: unknown,
): string {
  const folder = mkdtempSync(join(tmpdir(), 'upgrade-'))
  git('worktree', 'add', '--quiet', '--detach', folder, commit)
  try {
    adapt(folder, project)
    const manifest = merged === undefined ? readFileSync(MANIFEST) : `${JSON.stringify(merged, null, 2)}\n`
    writeFileSync(join(folder, MANIFEST), manifest)
    gitIn(folder, 'add', '--all')
    const tree = gitIn(folder, 'write-tree').trim()
    const message = `The product at ${commit.slice(0, 12)}, as this project has it`
    return git('commit-tree', tree, ...parents.flatMap((parent) => ['-p', parent]), '-m', message).trim()
  } finally {
    git('worktree', 'remove', '--force', folder)
  }
}

/** Merges the commit `theirs`. @returns whether git has found no conflict */
function merge(theirs: string, base: string): boolean {
  const files = new Set(listFiles())
  const manifest = readFileSync(MANIFEST, 'utf8')
  const name = readName(manifest)
  const readManifest = (commit: string) => {
    const text = git('show', `${commit}:${MANIFEST}`)
    return createReplace(readName(text), name)(text)
  }
  const [before, after] = [readManifest(base), readManifest(theirs)]
  const replace = createReplace(readName(git('show', `${base}:${MANIFEST}`)), name)
  const removed = splitNames(git('ls-tree', '-r', '-z', '--name-only', base))
    .map(replace)
    .filter((file) => !files.has(file))
  const project = { name, files, removed }
  const merged = mergeJson(JSON.parse(before), JSON.parse(manifest), JSON.parse(after))

  const adaptedBase = commitAdapted(base, [base], project)
  const adapted = commitAdapted(theirs, [adaptedBase, theirs], project, merged)
  // With the files of this project, so that git compares them with the adapted product.
  const message = `Prepare the upgrade to ${theirs.slice(0, 12)}`
  const prepared = git('commit-tree', 'HEAD^{tree}', '-p', 'HEAD', '-p', adaptedBase, '-m', message).trim()
  git('merge', '--quiet', '--ff-only', prepared)
  try {
    git('merge', '--quiet', '--no-ff', '-m', `Upgrade the product to ${theirs.slice(0, 12)}`, adapted)
    return true
  } catch (error) {
    if (git('diff', '--name-only', '--diff-filter=U') === '') throw error
    return false
  }
}

const NEXT = `  npm install && npm run docs && npm run migrations -- --name upgrade
  npm run build && npm run lint && npm test
and commit what has changed.`

function upgrade(ref: string | undefined): void {
  if (ref === undefined) throw new UsageError('Usage: npm run upgrade -- REMOTE/BRANCH')
  ensureClean()
  const [remote = ''] = ref.split('/')
  if (git('remote').split('\n').includes(remote)) git('fetch', '--quiet', remote)
  const theirs = git('rev-parse', '--verify', `${ref}^{commit}`).trim()
  const base = git('merge-base', 'HEAD', theirs).trim()
  if (base === theirs) {
    console.log(`This project has all of ${ref} already`)
    return
  }
  if (merge(theirs, base)) {
    console.log(`Merged ${ref}. Next:\n${NEXT}`)
    return
  }
  const conflicts = git('diff', '--name-only', '--diff-filter=U').trim().replaceAll(/^/gm, '  ')
  throw new Error(
    `Both sides have changed the same lines:\n${conflicts}\nResolve them, commit, then run:\n${NEXT}`,
  )
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  try {
    upgrade(process.argv[2])
  } catch (error) {
    console.error(error instanceof Error ? error.message : error)
    process.exitCode = error instanceof UsageError ? 2 : 1
  }
}
