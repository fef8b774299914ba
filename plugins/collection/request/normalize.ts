/**
 * Normalizes the strings of a body: NFC, LF, trimmed. It also finds, in time linear in the body, the violations that
 * would be expensive to find later: strings and arrays that are far too long, unknown fields, long runs of combining
 * marks.
 */
import type { TSchema } from '@sinclair/typebox'
import { isAscii } from '../../../lib/email-address.ts'
import { isObject } from '../../../lib/is-object.ts'
import { MAX_VIOLATIONS, type Violation } from '../../../schemas/error.ts'
import { canonicalizeLocale, isDateTime } from '../../validation/formats.ts'
import { hasLongMarkRun, LONG_MARK_RUN, MAX_UNITS_PER_CODE_POINT } from './text-limits.ts'

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
export const DEFAULT_MAX_ITEMS = 1_000
/** The maximum of a string whose schema has no `maxLength`: an enum, an id, a date, a time zone. */
const DEFAULT_MAX_LENGTH = 1_024

type Fields = Record<string, unknown>

interface Findings {
  violations: Violation[]
  /** Paths of values that were too long to be read. Empty values replace them. */
  unread: Set<string>
}

export interface Normalized extends Findings {
  value: Fields
}

function refuseLength({ violations, unread }: Findings, path: string, max: number, unit: string) {
  violations.push({ field: path, message: `must NOT have more than ${max} ${unit}`, code: 'TOO_LONG' })
  unread.add(path)
}

function normalizeText(sent: string, schema: TSchema, path: string, findings: Findings): string {
  // Trimmed before its length is checked: surrounding white space may be long. NFC maps white space only to white space.
  const trimmed = schema['x-trim'] === false ? sent : sent.trim()
  const maxLength: number = schema.maxLength ?? DEFAULT_MAX_LENGTH
  if (trimmed.length > maxLength * MAX_UNITS_PER_CODE_POINT) {
    refuseLength(findings, path, maxLength, 'characters')
    return ''
  }
  const canonicalize = canonicalizers[schema.format]
  if (PRINTABLE_ASCII.test(trimmed)) return canonicalize ? canonicalize(trimmed) : trimmed
  // The validator refuses it. NFC and case folding would turn it into another address: U+212A (KELVIN SIGN) into "k".
  if (schema.format === 'email' && !isAscii(trimmed)) return trimmed
  const refuse = (message: string) =>
    findings.violations.push({ field: path, message, code: 'INVALID_FORMAT' })
  if (!trimmed.isWellFormed()) {
    refuse('must not contain a lone surrogate')
    return trimmed.toWellFormed()
  }
  if (hasLongMarkRun(trimmed)) {
    refuse(LONG_MARK_RUN)
    return trimmed
  }
  const text = trimmed.normalize('NFC').replaceAll('\r\n', '\n')
  if ((schema['x-multiline'] ? CONTROL_CHARACTER_IN_LINES : CONTROL_CHARACTER).test(text)) {
    refuse('must not contain control characters')
  }
  return canonicalize ? canonicalize(text) : text
}

function normalizeItems(items: unknown[], schema: TSchema, path: string, findings: Findings): unknown[] {
  const maxItems: number = schema.maxItems ?? DEFAULT_MAX_ITEMS
  if (items.length > maxItems) {
    refuseLength(findings, path, maxItems, 'items')
    return []
  }
  return items.map((item, i) => normalizeValue(item, schema.items, `${path}.${i}`, findings))
}

/** @param prefix the path of the object with a final dot; '' for the outermost one */
function normalizeFields(value: Fields, schema: TSchema, prefix: string, findings: Findings): Fields {
  let changed: Fields | undefined
  for (const name of Object.keys(value)) {
    const { violations } = findings
    if (violations.length >= MAX_VIOLATIONS) break
    const field = `${prefix}${name}`
    // `toString` and the like are own properties of no schema.
    if (!Object.hasOwn(schema.properties, name)) {
      violations.push({ field, message: 'is not a known field', code: 'UNKNOWN_FIELD' })
      continue
    }
    const normalized = normalizeValue(value[name], schema.properties[name], field, findings)
    if (normalized === value[name]) continue
    changed ??= { ...value }
    changed[name] = normalized
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
  if (Array.isArray(value)) return schema.items ? normalizeItems(value, schema, path, findings) : value
  return isObject(value) && schema.properties ? normalizeFields(value, schema, `${path}.`, findings) : value
}

/**
 * Normalizes the fields of a body before they are validated and stored.
 * @param schema without additional properties: a field that it does not name is a violation
 * @returns at most `MAX_VIOLATIONS` violations; with that many, the rest of the value is not normalized
 */
export function normalize(fields: Fields, schema: TSchema): Normalized {
  const findings: Findings = { violations: [], unread: new Set() }
  return { value: normalizeFields(fields, schema, '', findings), ...findings }
}
