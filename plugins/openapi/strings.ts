/** Documents the strings of schemas with the formats and patterns that client generators and other validators know. */
import type { TSchema } from '@sinclair/typebox'

type Keywords = Record<string, unknown>

/** The documented keywords of the formats that only this service has. */
const documentedFormats: Record<string, Keywords> = {
  'iso-4217': { pattern: '^[A-Z]{3}$', maxLength: 3 },
  'https-uri': { format: 'uri', pattern: '^https://' },
  'time-zone': { pattern: '^[A-Za-z][A-Za-z0-9_+/-]*$', maxLength: 64 },
  'date-or-time': {
    pattern: '^\\d{4}-\\d{2}-\\d{2}(?:[Tt][0-9:.]+(?:[Zz]|[+-]\\d{2}:\\d{2}))?$',
  },
  'uuid-or-me': {},
  'bcp-47': { pattern: '^[A-Za-z0-9]+(?:-[A-Za-z0-9]+)*$' },
}

/** Replaces a format that only this service has by standard keywords. */
export function documentFormat(schema: Keywords): Keywords {
  const { format, ...rest } = schema
  const documented = typeof format === 'string' ? documentedFormats[format] : undefined
  return documented ? { ...rest, ...documented } : schema
}

/** Text of one line. Written with `\x`, which all regular expression languages have. */
const LINE = '^[^\\x00-\\x1f\\x7f-\\x9f]*$'
/** Text with newlines and tabs. */
const LINES = '^(?:[^\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f]|\\r\\n)*$'

const isString = ({ type }: TSchema) => [type].flat().includes('string')

/**
 * Adds the patterns of text without control characters, which `normalize` refuses, to the strings of a body that have
 * neither a pattern nor a format.
 */
export function addTextPatterns<T extends TSchema>(schema: T): T {
  if (isString(schema)) {
    const isText = !schema.enum && !schema.const && !schema.pattern && !schema.format
    return isText ? { ...schema, pattern: schema['x-multiline'] ? LINES : LINE } : schema
  }
  if (schema.items) return { ...schema, items: addTextPatterns(schema.items) }
  if (schema.anyOf) return { ...schema, anyOf: schema.anyOf.map(addTextPatterns) }
  if (!schema.properties) return schema
  const properties: Record<string, TSchema> = schema.properties
  return {
    ...schema,
    properties: Object.fromEntries(
      Object.entries(properties).map(([name, property]) => [name, addTextPatterns(property)]),
    ),
  }
}
