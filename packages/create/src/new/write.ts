/** Writes a new resource into an application, all of it or nothing. */
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { addCollections, formatMatrix, MATRIX_FILE, readMatrix } from '@resource-api/resources/access-matrix'
import type { ResourceDefinition } from '@resource-api/resources/internal'
import { checkApplication } from './check-application.ts'
import { adaptMigration } from './from-table.ts'
import { listMigrations, MIGRATIONS, type RenderedFile } from './render.ts'
import type { ResourcePlan } from './resource-plan.ts'

const JOURNAL = `${MIGRATIONS}/meta/_journal.json`

/** Adds what a new resource grants to the promises of the application. @returns the files that it has written */
async function addPromises(root: string, name: string): Promise<string[]> {
  const file = join(root, MATRIX_FILE)
  const matrix = readMatrix(file)
  // The checks name the command that writes it.
  if (!matrix) return []
  const url = pathToFileURL(join(root, `plugins/${name}.ts`)).href
  const { default: plugin }: { default: { collection: ResourceDefinition } } = await import(url)
  writeFileSync(file, formatMatrix(addCollections(matrix, [plugin.collection])))
  return [MATRIX_FILE]
}

/**
 * Writes the files, the promises of the access and the migration of the table, and checks that the application compiles and
 * loads. If a step fails, or Ctrl-C interrupts it, all files are as they were.
 * @returns the paths of the files that were written, relative to the application
 */
export async function writeFiles(
  root: string,
  files: readonly RenderedFile[],
  plan: ResourcePlan,
): Promise<string[]> {
  const known = new Set(listMigrations(root))
  const listNew = () => listMigrations(root).filter((path) => !known.has(path))
  const edited = [...files.flatMap(({ path, isNew }) => (isNew ? [] : [path])), JOURNAL, MATRIX_FILE].filter(
    (path) => existsSync(join(root, path)),
  )
  const before = edited.map((path) => [path, readFileSync(join(root, path))] as const)
  const undo = () => {
    for (const [path, content] of before) writeFileSync(join(root, path), content)
    const created = files.flatMap(({ path, isNew }) => (isNew ? [path] : []))
    for (const path of [...created, ...listNew()]) rmSync(join(root, path), { force: true })
  }
  // The command that runs gets the signal too and fails, so that the files are restored.
  const ignore = () => {}
  process.on('SIGINT', ignore)
  try {
    for (const { path, text, isNew } of files) {
      mkdirSync(dirname(join(root, path)), { recursive: true })
      writeFileSync(join(root, path), text, { flag: isNew ? 'wx' : 'w' })
    }
    const paths = files.map(({ path }) => path)
    checkApplication(root, paths)
    const written = [...paths, ...(await addPromises(root, plan.name))]
    // It exists, by a migration of its own.
    if (plan.existing?.view) return written
    const args = ['run', '--silent', 'migrations', '--', '--name', plan.name]
    execFileSync('npm', args, { cwd: root, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })
    const migration = listNew().find((path) => path.endsWith('.sql'))
    if (migration === undefined) throw new Error('drizzle-kit wrote no migration')
    if (plan.existing) {
      const path = join(root, migration)
      writeFileSync(path, adaptMigration(readFileSync(path, 'utf8'), plan.existing))
    }
    return [...written, ...listNew(), JOURNAL]
  } catch (error) {
    undo()
    const { stdout = '', stderr = '' } = error as { stdout?: string; stderr?: string }
    const reason = error instanceof Error ? error.message : error
    throw new Error(`${reason}\n${stdout}${stderr}All files are as they were before.`, { cause: error })
  } finally {
    process.off('SIGINT', ignore)
  }
}
