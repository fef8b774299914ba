/** Compares what an application grants with what its access matrix promises. */
import { isDeepStrictEqual } from 'node:util'
import type { AccessMatrix } from './build-matrix.ts'

type Texts = Readonly<Record<string, string>>

/** One rule: an operation, a route, a transition, or the reading or the writing of a field. */
interface ComparedRule {
  /** Its names in the matrix, such as `leases`, `list`. */
  path: readonly string[]
  /** By role. */
  granted: Texts
  promised: Texts
  isSame: boolean
}

/** Returns the rules of a matrix: the parts in which roles have a text. */
function listRules(part: AccessMatrix, path: readonly string[] = []): [path: readonly string[], Texts][] {
  const entries = Object.entries(part)
  const texts = entries.flatMap(([name, value]) => (typeof value === 'string' ? [[name, value]] : []))
  const inner = entries.flatMap(([name, value]) =>
    typeof value === 'string' ? [] : listRules(value, [...path, name]),
  )
  // The rule of a field that no role may read has no text.
  const isRule = texts.length > 0 || entries.length === 0
  return isRule && path.length > 0 ? [[path, Object.fromEntries(texts)], ...inner] : inner
}

/** What an absent rule means: a field without one is open to all who may read its row. */
const getDefault = ([section]: readonly string[]): Texts =>
  section === 'fields' ? { 'every role': 'all' } : {}

/** Compares all rules of both, in the order of their names. */
export function compareMatrices(granted: AccessMatrix, promised: AccessMatrix): ComparedRule[] {
  // No name has the separator.
  const read = (matrix: AccessMatrix) =>
    new Map(listRules(matrix).map(([path, texts]) => [path.join('\0'), texts]))
  const [grants, promises] = [read(granted), read(promised)]
  return [...new Set([...grants.keys(), ...promises.keys()])].sort().map((key) => {
    const path = key.split('\0')
    const found = grants.get(key) ?? getDefault(path)
    const wanted = promises.get(key) ?? getDefault(path)
    return { path, granted: found, promised: wanted, isSame: isDeepStrictEqual(found, wanted) }
  })
}

/** Returns what a rule is about, in words. */
export function nameRule([name = '', ...rest]: readonly string[]): string {
  const [collection = '', field = '', part = ''] = rest
  if (name === 'fields') return `the rules of the field ${field} of ${collection}, ${part}`
  if (name === 'moves') return `the transitions of ${collection}, ${field}: ${part}`
  if (name === 'routes') return `the route ${collection}`
  return `the rules of ${name}, ${rest.join(' ')}`
}

/** Returns the lines of a difference: `-` what is promised, `+` what is granted. */
export function formatDifference({ granted, promised }: ComparedRule): string[] {
  const roles = [...new Set([...Object.keys(promised), ...Object.keys(granted)])].sort()
  return roles
    .filter((role) => granted[role] !== promised[role])
    .flatMap((role) => [
      ...(role in promised ? [`- "${role}": "${promised[role]}"`] : []),
      ...(role in granted ? [`+ "${role}": "${granted[role]}"`] : []),
    ])
}
