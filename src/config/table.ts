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

/** Returns a Markdown table with one row per setting. */
export function settingsTable(): string {
  const rows = Object.entries(Settings.properties).map(([name, schema]) => {
    return `| \`${name}\` | ${formatDefault(schema)} | ${describeExpected(schema)} | ${schema.description} |`
  })
  return ['| Setting | Default | Value | Meaning |', '|---|---|---|---|', ...rows].join('\n')
}
