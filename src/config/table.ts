/** Renders the table of docs/settings.md. */
import type { TSchema } from '@sinclair/typebox'
import { describeExpected } from './expects.ts'
import { Settings } from './settings.ts'

function formatValue(value: unknown): string {
  return value === undefined || (Array.isArray(value) && value.length === 0) ? '' : `\`${value}\``
}

function formatDefault(schema: TSchema): string {
  const development = formatValue(schema.default)
  const production = 'production' in schema ? formatValue(schema.production) : development
  return production === development ? development : `${development}; production ${production}`
}

/** Returns the values of a setting: shorter than in an error, since the column says what it is. */
const formatExpected = (schema: TSchema) =>
  describeExpected(schema)
    .replace(/^an integer from /, '')
    .replace(/^(an?|one of) /, '')

/** Returns a Markdown table with one row per setting. */
export function settingsTable(): string {
  const rows = Object.entries(Settings.properties).map(([name, schema]) => {
    return `| \`${name}\` | ${formatDefault(schema)} | ${formatExpected(schema)} | ${schema.description} |`
  })
  return ['| Setting | Default | Value | Meaning |', '|---|---|---|---|', ...rows].join('\n')
}
