/** Writes a new resource into the repository, all of it or nothing. */
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { sections } from '../generated-sections.ts'
import { runScript } from '../run.ts'
import { type RenderedFile, ROOT } from './render.ts'

/** The generated files that `npm run docs` may change. */
const GENERATED = [
  ...new Set(sections.map(({ file }) => file)),
  '.env.example',
  'docs/operators/command-line.md',
  'docs/openapi/v1.json',
  'docs/openapi/v2.json',
  'packages/client/src/openapi.ts',
  'packages/client/src/own-collections.ts',
]
const MIGRATIONS = 'drizzle/migrations'
const JOURNAL = `${MIGRATIONS}/meta/_journal.json`

const listMigrations = () =>
  readdirSync(join(ROOT, MIGRATIONS), { recursive: true, encoding: 'utf8' })
    .filter((name) => /\.(sql|json)$/.test(name))
    .map((name) => `${MIGRATIONS}/${name}`)

interface Snapshot {
  /** Whether a file differs from what it was. */
  isChanged(path: string): boolean
  /** Restores the files and removes the new ones. */
  restore(): void
}

/** Remembers the files that will change. */
function takeSnapshot(files: readonly RenderedFile[]): Snapshot {
  const edited = files.filter(({ isNew }) => !isNew).map(({ path }) => path)
  const before = new Map(
    [...edited, JOURNAL, ...GENERATED].map((path) => [path, readFileSync(join(ROOT, path))]),
  )
  const migrations = new Set(listMigrations())
  const isChanged = (path: string) => !before.get(path)?.equals(readFileSync(join(ROOT, path)))
  const restore = () => {
    for (const [path, content] of before) writeFileSync(join(ROOT, path), content)
    const added = listMigrations().filter((path) => !migrations.has(path))
    const created = files.filter(({ isNew }) => isNew).map(({ path }) => path)
    for (const path of [...created, ...added]) rmSync(join(ROOT, path), { force: true })
  }
  return { isChanged, restore }
}

/**
 * Writes the files, the migration, and the documents and client types that follow from them. If a step fails, or Ctrl-C
 * interrupts it, all files are as they were before.
 * @returns the paths of all files that it wrote, relative to the repository
 */
export function writeFiles(files: readonly RenderedFile[], name: string): string[] {
  const { isChanged, restore } = takeSnapshot(files)
  const known = new Set(listMigrations())
  // The command that runs gets the signal too and fails, so that the files are restored.
  const ignore = () => {}
  process.on('SIGINT', ignore)
  try {
    for (const { path, text, isNew } of files) {
      writeFileSync(join(ROOT, path), text, { flag: isNew ? 'wx' : 'w' })
    }
    runScript('migrations', ['--name', name])
    const migration = listMigrations().filter((path) => !known.has(path))
    if (migration.length === 0) throw new Error('drizzle-kit wrote no migration')
    runScript('docs')
    return [...files.map(({ path }) => path), ...migration, JOURNAL, ...GENERATED.filter(isChanged)]
  } catch (error) {
    restore()
    throw new Error(`${error instanceof Error ? error.message : error}\nAll files are as they were before.`, {
      cause: error,
    })
  } finally {
    process.off('SIGINT', ignore)
  }
}
