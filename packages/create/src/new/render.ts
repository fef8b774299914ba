/** Renders the files of a new resource from the templates. Writes nothing. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import mustache from 'mustache'
import { UsageError } from '../usage-error.ts'
import { format, pruneImports } from './format.ts'
import { TEMPLATES } from './identifiers.ts'
import type { ResourcePlan } from './resource-plan.ts'
import { createTemplateData } from './template-data.ts'

/** Where the file of each template stands, in the order in which one reads them. */
const paths: Record<string, (name: string) => string> = {
  schema: (name) => `schemas/${name}.ts`,
  table: (name) => `drizzle/tables/${name}.ts`,
  plugin: (name) => `plugins/${name}.ts`,
  test: (name) => `test/${name}.test.ts`,
}

export interface RenderedFile {
  /** Relative to the application. */
  path: string
  isNew: boolean
  text: string
}

const OWN = 'src/own.ts'

/** Adds the import of the plugin and the entry of the list. @throws Error if the file has another form */
function addToOwn(text: string, { name, variable }: ResourcePlan): string {
  const [, before, entries, after] = /^([\s\S]*\bresources: \[)([\w\s,]*)(\][\s\S]*)$/.exec(text) ?? []
  if (before === undefined || entries === undefined || !/^import /m.test(before))
    throw new Error(`${OWN} should list the resources by name in "resources: ["; add ${variable} by hand`)
  const imported = before.replace(/^import /m, `import ${variable} from '../plugins/${name}.ts'\nimport `)
  return `${imported}${[...entries.split(',').flatMap((each) => each.trim() || []), variable].join(', ')}${after}`
}

/**
 * @param names the tables of the application that have no resource
 * @throws UsageError if a file or a table of the name exists already
 * @throws Error if the list of resources has no place for the resource
 */
export function renderFiles(root: string, plan: ResourcePlan, names: ReadonlySet<string>): RenderedFile[] {
  const { name, variable, table } = plan
  if (names.has(variable) || names.has(table))
    throw new UsageError(`The application has a table "${table}" already; choose another name`)
  const existing = Object.values(paths)
    .map((getPath) => getPath(name))
    .find((path) => existsSync(join(root, path)))
  if (existing) throw new UsageError(`${existing} exists already; remove it, or choose another name`)
  const data = createTemplateData(plan)
  const folder = join(TEMPLATES, plan.existing?.view ? 'view' : 'resource')
  const render = (template: string) =>
    mustache.render(
      readFileSync(join(folder, `${template}.ts.mustache`), 'utf8'),
      data,
      {},
      { escape: String },
    )
  const own = addToOwn(readFileSync(join(root, OWN), 'utf8'), plan)
  return [
    ...Object.entries(paths).map(([template, getPath]) => {
      const path = getPath(name)
      return { path, isNew: true, text: format(root, path, pruneImports(render(template))) }
    }),
    { path: OWN, isNew: false, text: format(root, OWN, own) },
  ]
}

/** The folder of the migrations, with what drizzle-kit knows of them. */
export const MIGRATIONS = 'drizzle/migrations'

/** Returns the migrations of the application, in their order. */
export const listMigrations = (root: string) =>
  readdirSync(join(root, MIGRATIONS), { recursive: true, encoding: 'utf8' })
    .filter((path) => /\.(sql|json)$/.test(path))
    .map((path) => `${MIGRATIONS}/${path}`)
    .sort()
