/**
 * Normalizes the strings of a body: NFC, LF, trimmed. It also finds, in time linear in the body, the violations that
 * would be expensive to find later: strings and arrays that are far too long, unknown fields, long runs of combining
 * marks. An id, or a reference to one, is kept as it was sent: `x-id`.
 */
import { isAscii, isObject } from '@resource-api/database/values'
import type { TSchema } from '@sinclair/typebox'
import { type FieldCode, MAX_VIOLATIONS, type Violation } from '../errors/codes.ts'
import { canonicalizeLocale, isDateTime } from './formats.ts'
import type { Fields } from './schema-functions.ts'

/**
 * NFC composes at most this many UTF-16 units to one code point: three characters beyond U+FFFF become U+16D6A. Four
 * units become U+1F82; CRLF, which becomes LF, has two. A trimmed text with more units for each character that it may
 * have is too long after normalization too.
 */
const MAX_UNITS_PER_CODE_POINT = 6

/**
 * The Stream-Safe Text Format (UAX #15, section 13) has at most 30 non-starters in a row. NFC sorts the marks of a run in
 * quadratic time: 43 s for 900 kB. All non-starters are marks; the few marks that are starters count too.
 * A match starts at the first mark of a run only: with a start at each mark, 200 kB of runs of 30 take 20 ms instead of 2.
 */
const LONG_RUN = /(?<!\p{M})\p{M}{31}/u

const hasLongMarkRun = (text: string): boolean => LONG_RUN.test(text)

const CONTROL_CHARACTER = /\p{Cc}/u
/** In text with several lines, newlines and tabs are allowed. */
const CONTROL_CHARACTER_IN_LINES = /(?![\n\t])\p{Cc}/u

/** Returns the canonical form of a text, by the format of its schema. */
const canonicalizers: Record<string, (text: string) => string> = {
  // The validator refuses other texts than RFC 3339 has; `Date` would accept many of them.
  'date-time': (text) => (isDateTime(text) ? new Date(text).toISOString() : text),
  email: (text) => text.toLowerCase(),
  uuid: (text) => text.toLowerCase(),
  'bcp-47': (text) => canonicalizeLocale(text) ?? text,
}

/** Most texts. They are normalized already. */
const PRINTABLE_ASCII = /^[\x20-\x7e]+$/

/** The maximum of an array whose schema has no `maxItems`. */
const DEFAULT_MAX_ITEMS = 1_000
/** The maximum of a string whose schema has no `maxLength`: an enum, an id, a date, a time zone. */
const DEFAULT_MAX_LENGTH = 1_024

interface Findings {
  violations: Violation[]
  /** Paths that have no further violations: of unknown fields, and of values that are too long, which empty ones replace. */
  settled: Set<string>
}

/** Adds a violation that no other one of the same field follows. */
function refuse({ violations, settled }: Findings, field: string, message: string, code: FieldCode) {
  violations.push({ field, message, code })
  settled.add(field)
}

/** Normalizes one text; `schema` is that of a string, or its keywords that apply. */
export function normalizeText(
  sent: string,
  schema: Pick<TSchema, string>,
  path: string,
  findings: Findings,
): string {
  if (schema['x-id']) {
    const isStored = sent.isWellFormed() && !sent.includes('\0')
    if (!isStored) refuse(findings, path, 'must not contain U+0000 or a lone surrogate', 'INVALID_FORMAT')
    return isStored ? sent : ''
  }
  // Trimmed before its length is checked: surrounding white space may be long. NFC maps white space only to white space.
  const trimmed = schema['x-trim'] === false ? sent : sent.trim()
  const maxLength: number = schema.maxLength ?? DEFAULT_MAX_LENGTH
  if (trimmed.length > maxLength * MAX_UNITS_PER_CODE_POINT) {
    refuse(findings, path, `must NOT have more than ${maxLength} characters`, 'TOO_LONG')
    return ''
  }
  const canonicalize = canonicalizers[schema.format]
  if (PRINTABLE_ASCII.test(trimmed)) return canonicalize ? canonicalize(trimmed) : trimmed
  // The validator refuses it. NFC and case folding would turn it into another address: U+212A (KELVIN SIGN) into "k".
  if (schema.format === 'email' && !isAscii(trimmed)) return trimmed
  const report = (message: string, kept: string) => {
    findings.violations.push({ field: path, message, code: 'INVALID_FORMAT' })
    return kept
  }
  if (!trimmed.isWellFormed()) return report('must not contain a lone surrogate', trimmed.toWellFormed())
  if (hasLongMarkRun(trimmed)) {
    return report('must not contain more than 30 combining marks in a row', trimmed)
  }
  const text = trimmed.normalize('NFC').replaceAll('\r\n', '\n')
  const controls = schema['x-multiline'] ? CONTROL_CHARACTER_IN_LINES : CONTROL_CHARACTER
  if (controls.test(text)) return report('must not contain control characters', text)
  return canonicalize ? canonicalize(text) : text
}

/** @param prefix the path of the array or object with a final dot; '' for the outermost one */
function normalizeItems(items: unknown[], schema: TSchema, prefix: string, findings: Findings): unknown[] {
  const maxItems: number = schema.maxItems ?? DEFAULT_MAX_ITEMS
  if (items.length > maxItems) {
    refuse(findings, prefix.slice(0, -1), `must NOT have more than ${maxItems} items`, 'TOO_LONG')
    return []
  }
  return items.map((item, i) => normalizeValue(item, schema.items, `${prefix}${i}`, findings))
}

function normalizeFields(value: Fields, schema: TSchema, prefix: string, findings: Findings): Fields {
  let changed: Fields | undefined
  for (const name of Object.keys(value)) {
    if (findings.violations.length >= MAX_VIOLATIONS) break
    const field = `${prefix}${name}`
    // `toString` and the like are own properties of no schema.
    const property = Object.hasOwn(schema.properties, name) ? schema.properties[name] : undefined
    if (!property) {
      if (schema.additionalProperties !== false) continue
      if (schema['x-read-only']?.includes(name)) refuse(findings, field, 'is read-only', 'READ_ONLY')
      else refuse(findings, field, 'is not a known field', 'UNKNOWN_FIELD')
    } else if (property['x-ignored']) {
      changed ??= { ...value }
      delete changed[name]
    } else {
      const normalized = normalizeValue(value[name], property, field, findings)
      if (normalized === value[name]) continue
      changed ??= { ...value }
      changed[name] = normalized
    }
  }
  return changed ?? value
}

/** Normalizes a value by its schema. A value of another type is kept: the validator reports it. */
function normalizeValue(
  value: unknown,
  schema: TSchema | undefined,
  path: string,
  findings: Findings,
): unknown {
  if (!schema || findings.violations.length >= MAX_VIOLATIONS) return value
  if (typeof value === 'string') return normalizeText(value, schema, path, findings)
  const prefix = path === '' ? '' : `${path}.`
  if (Array.isArray(value)) return schema.items ? normalizeItems(value, schema, prefix, findings) : value
  return isObject(value) && schema.properties ? normalizeFields(value, schema, prefix, findings) : value
}

/**
 * Normalizes a body before it is validated and stored. Keywords of objects: `x-read-only` lists the names of fields that
 * are refused as such, other than fields that are not known; a property with `x-ignored` is removed.
 * @returns at most `MAX_VIOLATIONS` violations; with that many, the rest of the value is not normalized
 */
export function normalize(value: unknown, schema: TSchema): Findings & { value: unknown } {
  const findings: Findings = { violations: [], settled: new Set() }
  return { value: normalizeValue(value, schema, '', findings), ...findings }
}
