/** Strings of a body in one form: NFC, LF, trimmed; and those that no JSON reader should have to bear, refused. */
import type { TSchema } from '@sinclair/typebox'
import type { Violation } from '../../schemas/error.ts'
import { canonicalLocale, isDateTime } from '../formats.ts'
import { isObject } from '../representation/body.ts'

// Control characters, save, where lines are welcome, the newline and the tab.
const control = /\p{Cc}/u
const controlInLines = /(?![\n\t])\p{Cc}/u

/** Forms that a format has of its own. */
const canonical: Record<string, (text: string) => string> = {
  // What is none stays as it is, to be refused: JavaScript reads much more than RFC 3339.
  'date-time': (text) => (isDateTime(text) ? new Date(text).toISOString() : text),
  email: (text) => text.toLowerCase(),
  uuid: (text) => text.toLowerCase(),
  'bcp-47': (text) => canonicalLocale(text) ?? text,
}

/** What most texts are, and what nothing is to be done about but what a format asks. */
const isPlain = (text: string): boolean =>
  /^[\x20-\x7e]+$/.test(text) && !text.startsWith(' ') && !text.endsWith(' ')

function normalizeText(sent: string, schema: TSchema, path: string, violations: Violation[]): string {
  const form = canonical[schema.format]
  if (isPlain(sent)) return form ? form(sent) : sent
  if (!sent.isWellFormed()) {
    violations.push({ field: path, message: 'must not hold a lone surrogate', code: 'INVALID_FORMAT' })
    return sent.toWellFormed()
  }
  const text = sent.normalize('NFC').replaceAll('\r\n', '\n')
  const trimmed = schema['x-trim'] === false ? text : text.trim()
  if ((schema['x-multiline'] ? controlInLines : control).test(trimmed)) {
    violations.push({ field: path, message: 'must not hold control characters', code: 'INVALID_FORMAT' })
  }
  return form ? form(trimmed) : trimmed
}

/** Names of `Object.prototype` are no members. */
const memberOf = (schema: TSchema, name: string): TSchema | undefined =>
  Object.hasOwn(schema.properties ?? {}, name) ? schema.properties[name] : undefined

function walk(value: unknown, schema: TSchema | undefined, path: string, violations: Violation[]): unknown {
  if (!schema) return value
  if (typeof value === 'string') return normalizeText(value, schema, path, violations)
  const below = (segment: string | number) => (path === '' ? `${segment}` : `${path}.${segment}`)
  if (Array.isArray(value)) return value.map((item, i) => walk(item, schema.items, below(i), violations))
  if (!isObject(value)) return value
  let changed: Record<string, unknown> | undefined
  for (const name of Object.keys(value)) {
    const member = value[name]
    const normal = walk(member, memberOf(schema, name), below(name), violations)
    if (normal === member) continue
    changed ??= { ...value }
    changed[name] = normal
  }
  return changed ?? value
}

/** The members as they are checked and stored, and the strings that cannot be. */
export function normalize(members: unknown, schema: TSchema): { value: unknown; violations: Violation[] } {
  const violations: Violation[] = []
  return { value: walk(members, schema, '', violations), violations }
}
