/** Renders the files of a new resource, formatted by Biome. Writes nothing. */
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { getTableName, is } from 'drizzle-orm'
import { PgTable } from 'drizzle-orm/pg-core'
import { tableFiles } from '../../drizzle/index.ts'
import { listDeclarations } from '../../packages/database/src/table-list.ts'
import { UsageError } from '../../packages/http/src/commands/usage-error.ts'
import { addInverse, addToOwn } from './edits.ts'
import type { ResourcePlan } from './resource-plan.ts'
import { canHaveDemoRows, writeDemoRows } from './templates/demo-rows.ts'
import { writeExamples } from './templates/examples.ts'
import { writePlugin } from './templates/plugin.ts'
import { writeSchema } from './templates/schema.ts'
import { writeTable } from './templates/table.ts'
import { writeTest } from './templates/test.ts'

export const ROOT = fileURLToPath(new URL('../..', import.meta.url))

export interface RenderedFile {
  /** Relative to the repository. */
  path: string
  isNew: boolean
  text: string
}

/**
 * Formats a file and sorts its imports, without writing it. Lines of spaces are those of a template that had nothing to
 * write; lines that separate statements are empty.
 */
export const format = (path: string, text: string): string =>
  execFileSync(
    process.execPath,
    [join(ROOT, 'node_modules/@biomejs/biome/bin/biome'), 'check', '--write', `--stdin-file-path=${path}`],
    { cwd: ROOT, input: text.replace(/^[ ]+\n/gm, ''), encoding: 'utf8', stdio: 'pipe' },
  )

const hasDemoRows = (name: string) =>
  name === 'users' || existsSync(join(ROOT, `src/cli/demo-data/${name}.ts`))
const writeDemo = (plan: ResourcePlan) => writeDemoRows(plan, hasDemoRows)

const templates: [path: (name: string) => string, write: (plan: ResourcePlan) => string][] = [
  [(name) => `schemas/${name}.ts`, writeSchema],
  [(name) => `plugins/${name}.ts`, writePlugin],
  [(name) => `drizzle/tables/${name}.ts`, writeTable],
  [(name) => `src/cli/demo-data/${name}.ts`, writeDemo],
  [(name) => `test/${name}.examples.ts`, writeExamples],
  [(name) => `test/${name}.test.ts`, writeTest],
]

const edits: [path: string, edit: (text: string, plan: ResourcePlan) => string][] = [['src/own.ts', addToOwn]]

/** @throws UsageError if another table has its name, in code or in SQL */
function checkTable({ variable, table }: ResourcePlan): void {
  const isTaken = (value: unknown, name?: string) =>
    name === variable || (is(value, PgTable) && getTableName(value) === table)
  for (const [path, exported] of tableFiles)
    if (Object.entries(exported).some(([name, value]) => isTaken(value, name))) {
      const file = path.replace('./', 'drizzle/')
      throw new UsageError(`${file} has a table "${table}" already; choose another name`)
    }
  if (listDeclarations().some((value) => isTaken(value)))
    throw new UsageError(`the product has a table "${table}" already; choose another name`)
}

/** Returns the references whose resource lacks the relation that a path of `--owner` follows back to the new resource. */
const listInverses = ({ ownerPaths, references, table }: ResourcePlan) =>
  references.filter(
    ({ column, to }) =>
      to.relations?.[table] === undefined &&
      ownerPaths.some(({ path }) => path.startsWith(`${column.replace(/_id$/, '')}.${table}.`)),
  )

/**
 * @throws UsageError if a new file exists already, or a folder of the name in `plugins`
 * @throws Error if a file to edit has no place for the resource
 */
export function renderFiles(plan: ResourcePlan): RenderedFile[] {
  checkTable(plan)
  const created = templates
    .filter(([, write]) => write !== writeDemo || canHaveDemoRows(plan, hasDemoRows))
    .map(([path, write]) => ({ path: path(plan.name), write }))
  // The files of `plugins/{name}` would be removed with the resource.
  const paths = [...created.map(({ path }) => path), `plugins/${plan.name}`]
  const existing = paths.find((path) => existsSync(join(ROOT, path)))
  if (existing) throw new UsageError(`${existing} exists already; remove it, or choose another name`)
  const inverses = listInverses(plan).map(({ column, to }): (typeof edits)[number] => {
    const path = `plugins/${to.name}.ts`
    return [path, (text) => addInverse(text, plan, column, path)]
  })
  const edited = [...edits, ...inverses].flatMap(([path, edit]) => {
    const before = readFileSync(join(ROOT, path), 'utf8')
    const text = edit(before, plan)
    return text === before ? [] : [{ path, isNew: false, text: format(path, text) }]
  })
  return [
    ...created.map(({ path, write }) => ({ path, isNew: true, text: format(path, write(plan)) })),
    ...edited,
  ]
}
