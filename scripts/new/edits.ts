/** Adds a resource to the files that list resources, tables or collections. An edit that finds no place for it fails. */
import type { ResourcePlan } from './resource-plan.ts'
import { tableImports, writeTable } from './templates/table.ts'

/** Splits a text in front of and behind its only occurrence of `anchor`. */
function splitAt(text: string, anchor: string, file: string): [before: string, after: string] {
  const [before, after, another] = text.split(anchor)
  if (before !== undefined && after !== undefined && another === undefined) return [before, after]
  throw new Error(`${file} should contain the text "${anchor}" exactly once; add the resource there by hand`)
}

/** Adds names to `import { ... } from 'module'`. */
function addNames(text: string, names: readonly string[], module: string, file: string): string {
  const [before, after] = splitAt(text, `} from '${module}'`, file)
  const start = before.lastIndexOf('import {')
  const known = before.slice(start + 'import {'.length)
  if (start === -1 || !/^[\w\s,]*$/.test(known)) {
    throw new Error(
      `${file} should import names from '${module}' with "import {"; add the table there by hand`,
    )
  }
  const all = new Set(
    [...known.split(','), ...names].map((name) => name.trim()).filter((name) => name !== ''),
  )
  return `${before.slice(0, start)}import { ${[...all].join(', ')} } from '${module}'${after}`
}

/** Appends the table, and the imports that it needs. */
export function addTable(text: string, plan: ResourcePlan): string {
  const file = 'drizzle/tables.ts'
  const table = writeTable(plan)
  for (const name of ['trigrams', 'sql']) {
    if (table.includes(`${name}(`) || table.includes(`${name}\``)) {
      if (new RegExp(`\\b${name}\\b`).test(text)) continue
      throw new Error(`${file} has no "${name}", which the table needs; add the table by hand`)
    }
  }
  let result = text
  for (const [module, names] of Object.entries(tableImports)) {
    const used = names.filter((name) => table.includes(`${name}(`))
    result = addNames(result, used, module, file)
  }
  return result + table
}

/** Adds the import and the entry of the list. */
export function addToApp(text: string, { name, variable }: ResourcePlan): string {
  const file = 'src/app.ts'
  const anchor = 'export const resources = ['
  const [before, after] = splitAt(text, anchor, file)
  const end = after.indexOf(']')
  const entries = after.slice(0, end)
  const firstImport = before.indexOf('\nimport ')
  if (firstImport === -1 || !/^[\w\s,]*$/.test(entries)) {
    throw new Error(
      `${file} should list the resources by name in "${anchor}"; add ${variable}Resource by hand`,
    )
  }
  // Biome sorts the imports.
  const imported = `\nimport { ${variable}Resource } from '../plugins/resources/${name}.ts'`
  const list = `${entries.trimEnd().replace(/,$/, '')}${entries.trim() === '' ? '' : ','} ${variable}Resource, `
  return `${before.slice(0, firstImport)}${imported}${before.slice(firstImport)}${anchor}${list}${after.slice(end)}`
}

/** Adds the collection to the TypeScript client. A nested one would need a method for its parent: it is left out. */
export function addToClient(text: string, { name, variable, parent }: ResourcePlan): string {
  if (parent) return text
  const file = 'client/src/client.ts'
  const member = '  /** Requires a session: sign in. */\n  sessions: Collection<'
  const value = '    sessions: new CollectionClient('
  const [before, between] = splitAt(text, member, file)
  const [inside, after] = splitAt(between, value, file)
  const path = `'/api/v1/${name}'`
  const addedMember = `  ${variable}: Collection<${path}>\n`
  const addedValue = `    ${variable}: new CollectionClient(transport, ${path}),\n`
  return `${before}${addedMember}${member}${inside}${addedValue}${value}${after}`
}
