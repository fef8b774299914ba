/** Finds the line of a rule in the sources of an application, for messages about it. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { findBuiltIn } from '@resource-api/database/application'
import type { ResourceDefinition } from '../definition/definition.ts'
import { getCollectionKey } from './build-matrix.ts'
import { MATRIX_FILE } from './matrix-file.ts'

/** Where rules stand, relative to the folder of the application. */
const FOLDERS = ['plugins', 'src'] as const

/** A part of a source file. */
interface Source {
  file: string
  text: string
  start: number
  end: number
}

const readSources = (folders: readonly string[]): Source[] =>
  folders
    .filter((folder) => existsSync(folder))
    .flatMap((folder) =>
      readdirSync(folder, { recursive: true, encoding: 'utf8' })
        .filter((name) => name.endsWith('.ts'))
        .sort()
        .map((name) => {
          const file = join(folder, name)
          const text = readFileSync(file, 'utf8')
          return { file, text, start: 0, end: text.length }
        }),
    )

const escapePattern = (text: string) => text.replace(/[\\^$.*+?()[\]{}|/-]/g, '\\$&')

/** Returns the first place that matches in a part of a source, as a part that begins there; undefined if none does. */
function find(source: Source | undefined, pattern: RegExp): Source | undefined {
  const offset = source?.text.slice(source.start, source.end).search(pattern) ?? -1
  return source && offset !== -1 ? { ...source, start: source.start + offset } : undefined
}

/** Returns the part that ends before the next line that is indented less, or as little as its first line. */
function toBlock(source: Source): Source {
  const { text, start, end } = source
  const lineStart = text.lastIndexOf('\n', start - 1) + 1
  const indent = /^[ \t]*/.exec(text.slice(lineStart))?.[0].length ?? 0
  const lineEnd = text.indexOf('\n', start)
  const rest = text.slice(lineEnd)
  const offset = lineEnd === -1 ? -1 : rest.search(new RegExp(`\\n[ \\t]{0,${indent}}\\S`))
  return offset === -1 ? source : { ...source, end: Math.min(end, lineEnd + offset) }
}

/** Returns the definition of a collection: from `collection(` to the end of the call. */
function findCollection(sources: readonly Source[], { singular }: Pick<ResourceDefinition, 'singular'>) {
  for (const source of sources) {
    const named = find(source, new RegExp(`\\bread:\\s*${escapePattern(singular)}\\b`))
    const start = named ? source.text.lastIndexOf('collection(', named.start) : -1
    if (start !== -1) return toBlock({ ...source, start })
  }
  return undefined
}

/** Returns a property of a definition with its value: of those with the name, that which is indented least. */
function findProperty(source: Source | undefined, name: string): Source | undefined {
  if (!source) return undefined
  const { text, start, end } = source
  const matches = [
    ...text.slice(start, end).matchAll(new RegExp(`^([ \\t]+)${escapePattern(name)}\\b\\s*[:,]`, 'gm')),
  ]
  const [match] = matches.toSorted((a, b) => (a[1]?.length ?? 0) - (b[1]?.length ?? 0))
  return match && toBlock({ ...source, start: start + match.index + (match[1]?.length ?? 0) })
}

/** A key of an object: also one in quotes, or a variable of that name. */
const toKey = (name: string) => {
  const key = escapePattern(name)
  return new RegExp(`(?<![\\w.'"-])(?:['"]?${key}['"]?\\s*:|(?<=[{,]\\s*)${key}\\s*[,}])`)
}

const READS = /\btoReads\(/
const WRITES = /\btoWrites\(/

/** The place of an operation in `access`: under its name, or that of a function for several ones. */
const OPERATIONS: Readonly<Record<string, readonly RegExp[]>> = {
  list: [toKey('list'), READS],
  'list (aggregates)': [toKey('list'), READS],
  'list (export)': [toKey('list'), READS],
  read: [toKey('read'), READS],
  create: [toKey('create'), WRITES],
  replace: [toKey('replace'), WRITES],
  update: [toKey('update'), WRITES],
  remove: [toKey('remove'), WRITES],
  restores: [toKey('restore')],
}

function findOperation(definition: Source | undefined, operation: string): Source | undefined {
  const access = findProperty(definition, 'access')
  const patterns = OPERATIONS[operation]
  const within = patterns ? access : (find(access, /\bactions\b/) ?? access)
  const found = (patterns ?? [toKey(operation)]).map((pattern) => find(within, pattern))
  const rule = found.find((each) => each !== undefined) ?? within
  if (operation === 'list (aggregates)') return find(definition, /\baggregates\b/) ?? rule
  if (operation === 'list (export)') return find(definition, /\bstreams\b/) ?? rule
  return rule
}

/** Returns a rule of a route of one's own: `access` in the call that registers it. */
function findRoute(sources: readonly Source[], route: string): Source | undefined {
  const [method = '', url = ''] = route.split(' ')
  const path = escapePattern(url.replace(/^\/api\/v\d+/, ''))
  for (const source of sources) {
    const call = find(source, new RegExp(`\\.${method.toLowerCase()}\\b[^(]*\\(\\s*['"\`]${path}['"\`]`))
    if (call) return find(toBlock(call), /\baccess\b/) ?? call
  }
  return undefined
}

const isOfPackages = (collection: string) => collection === 'users' || findBuiltIn(collection) !== undefined

const findRoles = (sources: readonly Source[]) =>
  find(
    sources.find(({ file }) => file.endsWith('application.ts')),
    /\broles:/,
  )

function findRule(
  path: readonly string[],
  definitions: readonly Pick<ResourceDefinition, 'name' | 'singular'>[],
  sources: readonly Source[],
): Source | undefined {
  const [name = '', second = '', field = '', last = ''] = path
  if (name === 'routes') return findRoute(sources, second)
  const isOfField = name === 'fields' || name === 'moves'
  const collection = isOfField ? second : name
  const definition = definitions.find(
    (each) => (isOfField ? each.name : getCollectionKey(each.name)) === collection,
  )
  if (!definition) return undefined
  const source = findCollection(sources, definition)
  if (!source) return isOfPackages(collection) ? findRoles(sources) : undefined
  if (!isOfField) return findOperation(source, second) ?? source
  const rules = findProperty(source, name === 'fields' ? 'fields' : 'transitions')
  const rule = find(rules, toKey(field))
  const [state = ''] = last.split(' -> ')
  return (name === 'moves' && rule && find(rule, toKey(state))) || rule || rules || source
}

/**
 * Returns the file and the line of a rule, such as `plugins/leases.ts:89`. Those of the collections of the packages follow
 * from the roles that the application declares; the place of all else that is not found is the matrix.
 * @param path the names of the rule in the matrix
 * @param folders those of the sources
 */
export function locateRule(
  path: readonly string[],
  definitions: readonly Pick<ResourceDefinition, 'name' | 'singular'>[],
  folders: readonly string[] = FOLDERS,
): string {
  const found = findRule(path, definitions, readSources(folders))
  if (!found) return MATRIX_FILE
  return `${found.file}:${found.text.slice(0, found.start).split('\n').length}`
}
