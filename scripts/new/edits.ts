/** Adds a resource to the files that list resources. An edit that finds no place for it fails. */
import type { ResourcePlan } from './resource-plan.ts'

/** Splits a text in front of and behind its only occurrence of `anchor`. */
function splitAt(text: string, anchor: string, file: string): [before: string, after: string] {
  const [before, after, another] = text.split(anchor)
  if (before !== undefined && after !== undefined && another === undefined) return [before, after]
  throw new Error(`${file} should contain the text "${anchor}" exactly once; add the resource there by hand`)
}

/** Inserts a text behind the first occurrence of `anchor`. */
export function insertAfter(text: string, anchor: string, added: string, file: string): string {
  const start = text.indexOf(anchor)
  if (start === -1)
    throw new Error(`${file} should contain the text "${anchor.trim()}"; add the field there by hand`)
  const end = start + anchor.length
  return `${text.slice(0, end)}${added}${text.slice(end)}`
}

/** Inserts a text in front of the first occurrence of `anchor`. */
export function insertBefore(text: string, anchor: string, added: string, file: string): string {
  const start = text.indexOf(anchor)
  if (start === -1)
    throw new Error(`${file} should contain the text "${anchor.trim()}"; add the field there by hand`)
  return `${text.slice(0, start)}${added}${text.slice(start)}`
}

/** Adds names to `import { ... } from 'module'`, or such an import. */
export function addNames(text: string, names: readonly string[], module: string, file: string): string {
  const missing = names.filter(
    (name) => !new RegExp(`import \\{[^}]*\\b${name}\\b[^}]*\\} from '${module}'`).test(text),
  )
  if (missing.length === 0) return text
  const end = `} from '${module}'`
  if (!text.includes(end)) {
    // Biome sorts the imports.
    return insertBefore(text, 'import ', `import { ${missing.join(', ')} } from '${module}'\n`, file)
  }
  const [before = ''] = text.split(end)
  const comma = /,\s*$/.test(before) ? '' : ','
  return insertBefore(text, end, `${comma} ${missing.join(', ')} `, file)
}

/** Adds the new resource as a relation of one that it refers to, for the paths of rules. */
export function addInverse(
  text: string,
  { name, table, variable }: ResourcePlan,
  column: string,
  file: string,
) {
  const relation = ` ${table}: { to: ${variable}, local: 'id', foreign: '${column}', many: true }, `
  const edited = insertAfter(text, '\nconst relations = {', relation, file)
  return addNames(edited, [variable], `../drizzle/tables/${name}.ts`, file)
}

/** Adds the import and the entry of the list. */
export function addToOwn(text: string, { name, variable }: ResourcePlan): string {
  const file = 'src/own.ts'
  const anchor = 'resources: ['
  const [before, after] = splitAt(text, anchor, file)
  const end = after.indexOf(']')
  const entries = after.slice(0, end)
  const firstImport = before.indexOf('\nimport ')
  if (firstImport === -1 || !/^[\w\s,]*$/.test(entries)) {
    throw new Error(`${file} should list the resources by name in "${anchor}"; add ${variable} by hand`)
  }
  // Biome sorts the imports.
  const imported = `\nimport ${variable} from '../plugins/${name}.ts'`
  const list = `${entries.trimEnd().replace(/,$/, '')}${entries.trim() === '' ? '' : ','} ${variable}, `
  return `${before.slice(0, firstImport)}${imported}${before.slice(firstImport)}${anchor}${list}${after.slice(end)}`
}
