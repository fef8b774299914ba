/** Finds the regular expressions of the service by parsing its source files. */
import { readdirSync, readFileSync } from 'node:fs'
import { SourceMap, type SourceMapPayload } from 'node:module'
import { relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parse } from 'acorn'
import { simple } from 'acorn-walk'
import { transformSync } from 'esbuild'

const root = fileURLToPath(new URL('../..', import.meta.url))
/** Which no server loads: the one runs where an application is written, the other where it is tested. */
const LEFT_OUT = new Set(['create', 'testing'])
const PACKAGES = readdirSync(`${root}packages`)
  .filter((name) => !LEFT_OUT.has(name))
  .map((name) => `packages/${name}/src`)
const FOLDERS = ['src', 'plugins', 'schemas', 'drizzle', ...PACKAGES]
/** Reads the sources of an application, for a command and for tests; no server loads it. */
const OWN_SOURCES = 'packages/resources/src/access-matrix/'

export interface Expression {
  source: string
  flags: string
  /** `file:line`, or the name of a format or of a field of a document. */
  place: string
}

interface Found {
  expressions: Expression[]
  /** `file:line` of each `RegExp(...)` whose pattern is not a string literal, so that it cannot be checked. */
  computed: string[]
}

/** Returns the expressions of a TypeScript module. */
function findInSource(text: string, file: string): Found {
  const { code, map } = transformSync(text, { loader: 'ts', sourcemap: 'external', sourcefile: file })
  const lines = new SourceMap(JSON.parse(map) as SourceMapPayload)
  const tree = parse(code, { ecmaVersion: 'latest', sourceType: 'module', locations: true })
  const found: Found = { expressions: [], computed: [] }

  /** Returns the position of a node in the TypeScript source. */
  const placeOf = (node: { loc?: { start: { line: number; column: number } } | null }) => {
    const { line, column } = node.loc?.start ?? { line: 1, column: 0 }
    const entry = lines.findEntry(line - 1, column)
    return `${file}:${'originalLine' in entry ? entry.originalLine + 1 : '?'}`
  }
  const visitCall = (node: Parameters<NonNullable<Parameters<typeof simple>[1]['CallExpression']>>[0]) => {
    if (node.callee.type !== 'Identifier' || node.callee.name !== 'RegExp') return
    const [source, flags] = node.arguments
    const place = placeOf(node)
    if (source?.type !== 'Literal' || typeof source.value !== 'string') found.computed.push(place)
    else {
      const given = flags?.type === 'Literal' ? String(flags.value) : ''
      found.expressions.push({ source: source.value, flags: given, place })
    }
  }
  simple(tree, {
    Literal(node) {
      if (node.regex) {
        found.expressions.push({ source: node.regex.pattern, flags: node.regex.flags, place: placeOf(node) })
      }
    },
    CallExpression: visitCall,
    NewExpression: (node) => visitCall({ ...node, type: 'CallExpression', optional: false }),
  })
  return found
}

/** Returns the expressions of all modules that the server may load. */
export function findInSources(): Found {
  const files = FOLDERS.flatMap((folder) =>
    readdirSync(`${root}${folder}`, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile() && /\.ts$/.test(entry.name) && !entry.name.endsWith('.d.ts'))
      .map((entry) => relative(root, `${entry.parentPath}/${entry.name}`))
      .filter((file) => !file.startsWith(OWN_SOURCES)),
  )
  const all = files.map((file) => findInSource(readFileSync(`${root}${file}`, 'utf8'), file))
  return {
    expressions: all.flatMap(({ expressions }) => expressions),
    computed: all.flatMap(({ computed }) => computed),
  }
}

/** Returns the values of a keyword in a JSON document with their paths. */
export function findKeyword(
  document: unknown,
  keyword: string,
  path = '',
): { value: string; path: string }[] {
  if (typeof document !== 'object' || document === null) return []
  return Object.entries(document).flatMap(([name, value]) =>
    name === keyword && typeof value === 'string'
      ? [{ value, path }]
      : findKeyword(value, keyword, `${path}/${name}`),
  )
}
