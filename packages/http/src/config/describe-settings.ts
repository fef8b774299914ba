/** Describes settings and the values that they accept, for error messages and for the table of docs/settings.md. */

import type { TSchema } from '@sinclair/typebox'
import { getSettings } from './all-settings.ts'
import { formats, isFormatName } from './formats.ts'

function describeBounds(minimum: number | undefined, maximum: number | undefined, unit: string): string {
  if (minimum !== undefined && maximum !== undefined) return `${minimum} to ${maximum}${unit}`
  if (minimum !== undefined) return minimum > 1 ? `${minimum}${unit} or more` : ''
  return maximum === undefined ? '' : `at most ${maximum}${unit}`
}

function describeText(schema: TSchema): string {
  if (Array.isArray(schema.enum)) return `one of ${schema.enum.join(', ')}`
  const length = describeBounds(schema.minLength, schema.maxLength, ' characters')
  if (!isFormatName(schema.format)) return length || 'text'
  const expected = formats[schema.format].expects
  return length ? `${expected}, ${length}` : expected
}

/** Returns a phrase such as `an integer from 0 to 65535`. */
export function describeExpected(schema: TSchema): string {
  switch (schema.type) {
    case 'integer':
      return `an integer from ${describeBounds(schema.minimum, schema.maximum, '')}`
    case 'boolean':
      return 'true or false'
    case 'array':
      return `a comma-separated list, each ${describeText(schema.items)}`
    default:
      return describeText(schema)
  }
}

function formatValue(value: unknown): string {
  return value === undefined || (Array.isArray(value) && value.length === 0) ? '' : `\`${value}\``
}

function formatDefault(schema: TSchema): string {
  const development = formatValue(schema.default)
  const production = 'production' in schema ? formatValue(schema.production) : development
  return production === development ? development : `${development}; production ${production}`
}

/** Returns the values of a setting, shorter than in an error: the column says what they are. */
const formatExpected = (schema: TSchema) =>
  describeExpected(schema)
    .replace(/^an integer from /, '')
    .replace(/^(an?|one of) /, '')
    .replace(/^(\d+) to (\d+)/, '$1-$2')

/** Returns a Markdown table with one row per setting. */
export function settingsTable(): string {
  const rows = Object.entries(getSettings().properties).map(([name, schema]) => {
    return `| \`${name}\` | ${formatDefault(schema)} | ${formatExpected(schema)} | ${schema.description} |`
  })
  return ['| Setting | Default | Value | Meaning |', '|---|---|---|---|', ...rows].join('\n')
}
