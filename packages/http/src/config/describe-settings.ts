/**
 * Describes settings and the values that they accept, for error messages, for the help of `serve` and for the table of
 * docs/operators/settings.md.
 */

import type { TSchema } from '@sinclair/typebox'
import { allSettings } from './all-settings.ts'
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

/** Returns what a setting means, with the values where few are allowed. Errors have the other limits. */
function formatMeaning(schema: TSchema): string {
  if (schema.type === 'array') return `${schema.description} Separated by commas.`
  return Array.isArray(schema.enum)
    ? `${schema.description} One of ${schema.enum.join(', ')}.`
    : `${schema.description}`
}

/** Returns the name, the default and the meaning of each setting, as Markdown. */
export const describeSettings = () =>
  Object.entries(allSettings.properties).map(([name, schema]) => ({
    name,
    default: formatDefault(schema),
    meaning: formatMeaning(schema),
  }))

/** Returns a Markdown table with one row per setting. */
export function settingsTable(): string {
  const rows = describeSettings().map((each) => `| \`${each.name}\` | ${each.default} | ${each.meaning} |`)
  return ['| Setting | Default | Meaning |', '|---|---|---|', ...rows].join('\n')
}
