/** The names that the code of a new resource cannot declare: those of JavaScript, and those of its own files. */
import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

export const TEMPLATES = fileURLToPath(new URL('../../templates/', import.meta.url))

/** Names that no variable of a module may have, or that TypeScript and drizzle-kit refuse for one. */
const RESERVED = `arguments await break case catch class const continue debugger default delete do else enum eval export
  extends false finally for function globalThis if implements import in instanceof interface let new null package private
  protected public return static super switch this throw true try typeof undefined var void while with yield`

/** Of `src/own.ts`, and the parameter of plugins. */
const OWN = 'defineOwn own app'

/** Returns what the templates import and declare, apart from the names of the resource, which are tags. */
function readDeclarations(): string[] {
  const files = readdirSync(TEMPLATES, { recursive: true, encoding: 'utf8' })
  return files
    .filter((path) => /(?:schema|table|plugin)\.ts\.mustache$/.test(path))
    .flatMap((path) => {
      const code = readFileSync(`${TEMPLATES}${path}`, 'utf8').replace(/\{\{.*?\}\}/g, '#')
      const declared = [...code.matchAll(/^(?:import|const) (?:\{ (.*) \}|\* as (\w+)|(\w+))/gm)]
      return declared.flatMap(([, names = '', ...single]) => [
        // Without `type` and what stands before `as`.
        ...names.split(', ').map((name) => name.split(' ').at(-1)?.replace(/#$/, '') ?? ''),
        ...single.flatMap((name) => name ?? []),
      ])
    })
}

const taken = new Set([...RESERVED.split(/\s+/), ...OWN.split(' '), ...readDeclarations()])

/** Whether the files of a resource have the name already, so that they cannot declare it. */
export const isTaken = (name: string): boolean => taken.has(name)
