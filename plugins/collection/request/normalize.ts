/**
 * Strings of a body in one form: NFC, LF, trimmed. Violations that would be expensive to find later are found here, in
 * time linear in the body: strings and arrays far too long, unknown members, long runs of combining marks.
 */
import type { TSchema } from '@sinclair/typebox'
import { isAscii } from '../../../lib/email-address.ts'
import { isObject } from '../../../lib/is-object.ts'
import { MAX_VIOLATIONS, type Violation } from '../../../schemas/error.ts'
import { canonicalizeLocale, isDateTime } from '../../validation/formats.ts'
import { getMaxUnits, hasLongMarkRun, LONG_MARK_RUN } from './text-limits.ts'

// Control characters, save, where lines are welcome, the newline and the tab.
const control = /\p{Cc}/u
const controlInLines = /(?![\n\t])\p{Cc}/u

/** Forms that a format has of its own. */
const canonical: Record<string, (text: string) => string> = {
  // What is none stays as it is, to be refused: JavaScript reads much more than RFC 3339.
  'date-time': (text) => (isDateTime(text) ? new Date(text).toISOString() : text),
  email: (text) => text.toLowerCase(),
  uuid: (text) => text.toLowerCase(),
  'bcp-47': (text) => canonicalizeLocale(text) ?? text,
}

/** What most texts are, and what nothing is to be done about but what a format asks. */
const isPlain = (text: string): boolean =>
  /^[\x20-\x7e]+$/.test(text) && !text.startsWith(' ') && !text.endsWith(' ')

/** Items of an array whose schema has no `maxItems`. */
export const DEFAULT_MAX_ITEMS = 1_000
/** Characters of a string whose schema has no `maxLength`: an enum, an id, a date, a time zone. */
const DEFAULT_MAX_LENGTH = 1_024

/** What is found on a walk through a body. */
interface Found {
  violations: Violation[]
  /** Paths of values that were too long to be looked at; empty ones stand in their place. */
  unread: Set<string>
}

function refuseLength({ violations, unread }: Found, path: string, most: number, unit: string) {
  violations.push({ field: path, message: `must NOT have more than ${most} ${unit}`, code: 'TOO_LONG' })
  unread.add(path)
}

function normalizeText(sent: string, schema: TSchema, path: string, found: Found): string {
  // First, since white space around a text may be of any length. It is the same white space before NFC and after.
  const outer = schema['x-trim'] === false ? sent : sent.trim()
  const maxLength: number = schema.maxLength ?? DEFAULT_MAX_LENGTH
  if (outer.length > getMaxUnits(maxLength)) {
    refuseLength(found, path, maxLength, 'characters')
    return ''
  }
  const form = canonical[schema.format]
  if (isPlain(outer)) return form ? form(outer) : outer
  // Left as it is, for the format to refuse: NFC and case folding would make another address of it (U+212A is "k").
  if (schema.format === 'email' && !isAscii(outer)) return outer
  const refuse = (message: string) => found.violations.push({ field: path, message, code: 'INVALID_FORMAT' })
  if (!outer.isWellFormed()) {
    refuse('must not hold a lone surrogate')
    return outer.toWellFormed()
  }
  if (hasLongMarkRun(outer)) {
    refuse(LONG_MARK_RUN)
    return outer
  }
  const text = outer.normalize('NFC').replaceAll('\r\n', '\n')
  if ((schema['x-multiline'] ? controlInLines : control).test(text)) {
    refuse('must not hold control characters')
  }
  return form ? form(text) : text
}

/** Names of `Object.prototype` are no members. */
const memberOf = (schema: TSchema, name: string): TSchema | undefined =>
  Object.hasOwn(schema.properties ?? {}, name) ? schema.properties[name] : undefined

const join = (path: string, segment: string | number) => (path === '' ? `${segment}` : `${path}.${segment}`)

function normalizeItems(items: unknown[], schema: TSchema, path: string, found: Found): unknown[] {
  const maxItems: number = schema.maxItems ?? DEFAULT_MAX_ITEMS
  if (items.length > maxItems) {
    refuseLength(found, path, maxItems, 'items')
    return []
  }
  return items.map((item, i) => walk(item, schema.items, join(path, i), found))
}

function normalizeMembers(value: Record<string, unknown>, schema: TSchema, path: string, found: Found) {
  let changed: Record<string, unknown> | undefined
  for (const name of Object.keys(value)) {
    if (found.violations.length >= MAX_VIOLATIONS) break
    const member = memberOf(schema, name)
    if (!member) {
      found.violations.push({
        field: join(path, name),
        message: 'is not a known member',
        code: 'UNKNOWN_FIELD',
      })
      continue
    }
    const normal = walk(value[name], member, join(path, name), found)
    if (normal === value[name]) continue
    changed ??= { ...value }
    changed[name] = normal
  }
  return changed ?? value
}

/** Leaves values alone that have not the type of their schema: the validator reports them. */
function walk(value: unknown, schema: TSchema | undefined, path: string, found: Found): unknown {
  if (!schema || found.violations.length >= MAX_VIOLATIONS) return value
  if (typeof value === 'string') return normalizeText(value, schema, path, found)
  if (Array.isArray(value)) return schema.items ? normalizeItems(value, schema, path, found) : value
  return isObject(value) && schema.properties ? normalizeMembers(value, schema, path, found) : value
}

/**
 * The members as they are checked and stored.
 * @param schema closed: a member that it does not name is a violation
 * @returns at most `MAX_VIOLATIONS` violations; with that many, the value is not normalized to its end
 */
export function normalize(members: unknown, schema: TSchema): Found & { value: unknown } {
  const found: Found = { violations: [], unread: new Set() }
  return { value: walk(members, schema, '', found), ...found }
}
