/** The formats of the schemas, and the Ajv validators that support them. */
import { isObject, isUuid } from '@resource-api/database/values'
import {
  Ajv,
  type ErrorObject,
  type Format,
  type Schema,
  type SchemaValidateFunction,
  type ValidateFunction,
} from 'ajv'
import addFormats from 'ajv-formats'
import { isNegativeZero } from '../schemas/types.ts'

const currencies = new Set(Intl.supportedValuesOf('currency'))

/** Whether a name is an IANA time zone, in the letter case of the registry. */
function isTimeZone(name: string): boolean {
  if (!/^[A-Za-z]/.test(name)) return false
  try {
    const canonical = new Intl.DateTimeFormat('en', { timeZone: name }).resolvedOptions().timeZone
    // For an alias, the canonical name is another one, so its letter case cannot be compared.
    return canonical === name || canonical.toLowerCase() !== name.toLowerCase()
  } catch {
    return false
  }
}

/** Returns the canonical form of a BCP 47 tag, or undefined for an invalid one. */
export function canonicalizeLocale(tag: string): string | undefined {
  try {
    return Intl.getCanonicalLocales(tag)[0]
  } catch {
    return undefined
  }
}

/** Whether a text is an https URI with a host by RFC 3986, in any letter case. Input that `new URL` would repair is rejected. */
function isHttpsUri(uri: string): boolean {
  if (!/^https:\/\/(?![/?#])(?:[A-Za-z0-9\-._~:/?#[\]@!$&'()*+,;=]|%[0-9A-Fa-f]{2})+$/i.test(uri))
    return false
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

/** Whether a text is an RFC 3339 date and time of a day that exists. Leap seconds are rejected: JavaScript has none. */
export function isDateTime(text: string): boolean {
  const day = DATE_TIME.exec(text)?.[1]
  return day !== undefined && isRealDay(day)
}

const isDate = (text: string): boolean => /^\d{4}-\d\d-\d\d$/.test(text) && isRealDay(text)

/** A time of day as PostgreSQL writes it. */
const TIME_OF_DAY = /^(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d$/

const formats = {
  date: isDate,
  'date-time': isDateTime,
  'date-or-time': (text: string) => isDate(text) || isDateTime(text),
  // Without the prefix `urn:uuid:`, which ajv-formats accepts but a uuid column does not.
  uuid: isUuid,
  'uuid-or-me': (text: string) => text === 'me' || isUuid(text),
  'time-of-day': TIME_OF_DAY,
  decimal: (text: string) => /^-?\d+(?:\.\d+)?$/.test(text) && !isNegativeZero(text),
  'iso-4217': (code: string) => currencies.has(code),
  'time-zone': isTimeZone,
  'bcp-47': (tag: string) => canonicalizeLocale(tag) !== undefined,
  'https-uri': isHttpsUri,
  // Those of OpenAPI for integers name a size and restrict nothing: the bounds of a schema do that.
  int32: true as const,
  int64: true as const,
}

/** Options of the serializer, which validates a value to choose between the alternatives of a schema. */
export const serializerOptions: { ajv: { strict: false; formats: Record<string, Format> } } = {
  ajv: { strict: false, formats },
}

const UNIQUE_BY = 'x-unique-by'

/** `x-unique-by: 'product_id'`: no two items of an array may have the same value of that member. */
const validateUniqueBy: SchemaValidateFunction = (
  member: string,
  items: readonly unknown[],
  _parent,
  context,
): boolean => {
  const seen = new Set<unknown>()
  const errors: Partial<ErrorObject>[] = []
  for (const [i, item] of items.entries()) {
    const value = isObject(item) ? item[member] : undefined
    if (value !== undefined && seen.has(value)) {
      errors.push({
        keyword: UNIQUE_BY,
        instancePath: `${context?.instancePath ?? ''}/${i}/${member}`,
        message: 'must not repeat the value of an earlier item',
      })
    }
    seen.add(value)
  }
  validateUniqueBy.errors = errors
  return errors.length === 0
}

/** Creates a validator that reports all errors and does not modify the value: no defaults, no removal, no coercion. */
export function createAjv(): Ajv {
  const ajv = new Ajv({
    allErrors: true,
    strict: true,
    strictTypes: false,
    // Ajv's optimization of the generated code makes it no faster in V8, and takes a tenth of the startup time.
    code: { optimize: false },
    formats,
    // Ajv ignores the names: they belong to `normalize`, the text of a query string, and the documents.
    keywords: [
      ...['x-id', 'x-trim', 'x-multiline', 'x-read-only', 'x-ignored', 'discriminator'],
      ...['x-documented', 'x-component', 'x-examples', 'x-in-examples'],
      { keyword: UNIQUE_BY, type: 'array', schemaType: 'string', errors: 'full', validate: validateUniqueBy },
    ],
  })
  addFormats.default(ajv, { mode: 'full', formats: ['email'] })
  return ajv
}

const ajv = createAjv()
const validators = new Map<string, ValidateFunction>()

/** Returns the function that Ajv compiles. Equal schemas, which each version has, are compiled once. */
function compileOnce(schema: Schema): ValidateFunction {
  const key = JSON.stringify(schema)
  const validate = validators.get(key) ?? ajv.compile(schema)
  validators.set(key, validate)
  return validate
}

/** Routes share many schemas. With 100 resources, checking each schema for each route takes 1.8 s. */
const checkedSchemas = new WeakSet<object>()

/** @throws Error if it is no JSON Schema */
export function checkSchema(schema: unknown): void {
  if (!isObject(schema) || checkedSchemas.has(schema)) return
  ajv.validateSchema(schema, true)
  checkedSchemas.add(schema)
}

/** The keywords whose value is a schema or a list of schemas. */
const SUBSCHEMAS = new Set(['items', 'additionalProperties', 'anyOf', 'oneOf', 'allOf', 'not'])

/** Throws the errors that Ajv finds when it compiles a schema: unknown keywords and formats, and invalid patterns. */
function checkKeywords(schema: unknown): void {
  if (!isObject(schema)) return
  for (const [keyword, value] of Object.entries(schema)) {
    if (!ajv.RULES.keywords[keyword]) throw new Error(`unknown keyword: "${keyword}"`)
    if (keyword === 'format' && !(String(value) in ajv.formats)) throw new Error(`unknown format "${value}"`)
    if (keyword === 'pattern') ajv.opts.code.regExp(String(value), 'u')
    if (keyword === 'properties' && isObject(value)) Object.values(value).forEach(checkKeywords)
    if (SUBSCHEMAS.has(keyword)) [value].flat().forEach(checkKeywords)
  }
}

/** @throws Error if Ajv cannot compile the schema */
export function checkRequestSchema(schema: unknown): void {
  checkSchema(schema)
  checkKeywords(schema)
}

/** Returns whether a value is valid. Afterwards, `errors` has its errors. */
interface Validator {
  (value: unknown): boolean
  errors: ValidateFunction['errors']
}

/**
 * Returns the validator of a schema, which is compiled when it is first called: with many resources, the start would take
 * long for that.
 */
export function compileSchema(schema: Schema): Validator {
  let compiled: ValidateFunction | undefined
  const validate: Validator = (value) => {
    compiled ??= compileOnce(schema)
    const isValid = compiled(value)
    validate.errors = compiled.errors
    return isValid
  }
  validate.errors = null
  return validate
}
