/** The table of settings as the README shows it. */
import type { TSchema } from '@sinclair/typebox'
import { expects } from './expects.ts'
import { Settings } from './settings.ts'

function value(of: unknown): string {
  return of === undefined || (Array.isArray(of) && of.length === 0) ? '' : `\`${of}\``
}

function standard(schema: TSchema): string {
  const usual = value(schema.default)
  const production = 'production' in schema ? value(schema.production) : usual
  return production === usual ? usual : `${usual}; production ${production}`
}

/** One row per setting, in Markdown. */
export function settingsTable(): string {
  const rows = Object.entries(Settings.properties).map(([name, schema]) => {
    return `| \`${name}\` | ${standard(schema)} | ${expects(schema)} | ${schema.description} |`
  })
  return ['| Setting | Default | Value | Meaning |', '|---|---|---|---|', ...rows].join('\n')
}
