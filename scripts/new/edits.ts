/** Adds a resource to the files that list resources. An edit that finds no place for it fails. */
import type { ResourcePlan } from './resource-plan.ts'

/** Splits a text in front of and behind its only occurrence of `anchor`. */
function splitAt(text: string, anchor: string, file: string): [before: string, after: string] {
  const [before, after, another] = text.split(anchor)
  if (before !== undefined && after !== undefined && another === undefined) return [before, after]
  throw new Error(`${file} should contain the text "${anchor}" exactly once; add the resource there by hand`)
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
    throw new Error(
      `${file} should list the resources by name in "${anchor}"; add ${variable}Resource by hand`,
    )
  }
  // Biome sorts the imports.
  const imported = `\nimport { ${variable}Resource } from '../plugins/resources/${name}.ts'`
  const list = `${entries.trimEnd().replace(/,$/, '')}${entries.trim() === '' ? '' : ','} ${variable}Resource, `
  return `${before.slice(0, firstImport)}${imported}${before.slice(firstImport)}${anchor}${list}${after.slice(end)}`
}
