/** The formats of strings, beside JSON Schema's own, and the Ajv that knows them all. */
import { Ajv, type Schema, type ValidateFunction } from 'ajv'
import addFormats, { type FormatsPluginOptions } from 'ajv-formats'
import { uniqueBy } from './unique-by.ts'

const currencies = new Set(Intl.supportedValuesOf('currency'))

/** An IANA time zone, in the letter case of the registry. */
function isTimeZone(name: string): boolean {
  if (!/^[A-Za-z]/.test(name)) return false
  try {
    const known = new Intl.DateTimeFormat('en', { timeZone: name }).resolvedOptions().timeZone
    return known === name || known.toLowerCase() !== name.toLowerCase()
  } catch {
    return false
  }
}

/** The canonical form of a BCP 47 tag, undefined for what is none. */
export function canonicalLocale(tag: string): string | undefined {
  try {
    return Intl.getCanonicalLocales(tag)[0]
  } catch {
    return undefined
  }
}

/** RFC 3986: its characters alone, percent-encodings whole, and a host. What a browser would repair is refused. */
function isHttpsUri(uri: string): boolean {
  if (!/^https:\/\/[^/?#](?:[A-Za-z0-9\-._~:/?#[\]@!$&'()*+,;=]|%[0-9A-Fa-f]{2})*$/i.test(uri)) return false
  try {
    return new URL(uri).hostname !== ''
  } catch {
    return false
  }
}

const DATE_TIME =
  /^(\d{4}-\d\d-\d\d)T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d+)?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)$/i

/** Whether a day such as `2026-02-29` exists. */
function isRealDay(day: string): boolean {
  const midnight = new Date(`${day}T00:00:00Z`)
  return !Number.isNaN(midnight.getTime()) && midnight.toISOString().startsWith(day)
}

/** RFC 3339 to the letter, of a day that exists, and without the leap second, which no computer's clock can hold. */
export function isDateTime(text: string): boolean {
  const day = DATE_TIME.exec(text)?.[1]
  return day !== undefined && isRealDay(day)
}

const isDate = (text: string): boolean => /^\d{4}-\d\d-\d\d$/.test(text) && isRealDay(text)

const formats = {
  date: isDate,
  'date-time': isDateTime,
  // The plain form alone: what ajv-formats takes beside it (`urn:uuid:`) is no value of a uuid column.
  uuid: /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i,
  'iso-4217': (code: string) => currencies.has(code),
  'time-zone': isTimeZone,
  'bcp-47': (tag: string) => canonicalLocale(tag) !== undefined,
  'https-uri': isHttpsUri,
}

/** For the serializer, which tells the alternatives of a schema apart by validating: what the house's formats are called. */
export const serializerOptions = { ajv: { strict: false, formats } }

const standard: FormatsPluginOptions = { mode: 'full', formats: ['email'] }

/** A validator that finds all that is wrong, and changes nothing: no coercion, no defaults, nothing removed. */
export function createAjv(): Ajv {
  const ajv = new Ajv({
    allErrors: true,
    coerceTypes: false,
    useDefaults: false,
    removeAdditional: false,
    strict: true,
    strictTypes: false,
    // V8 does as well by itself, and a start would spend a tenth of its time on it.
    code: { optimize: false },
    formats,
    keywords: ['x-trim', 'x-multiline', uniqueBy],
  })
  addFormats.default(ajv, standard)
  return ajv
}

const compiled = new WeakMap<Ajv, Map<string, ValidateFunction>>()

/** The validator of a schema, compiled once for all that say the same: each version has its own of every schema. */
export function compile(ajv: Ajv, schema: Schema): ValidateFunction {
  const known = compiled.get(ajv) ?? new Map<string, ValidateFunction>()
  compiled.set(ajv, known)
  const text = JSON.stringify(schema)
  const validate = known.get(text) ?? ajv.compile(schema)
  known.set(text, validate)
  return validate
}
