/** Keeps .env.example in step with the settings: each one once, with its default. Comments and groups are kept. */
import '../src/application.ts'
import { allSettings } from '../packages/http/src/config/all-settings.ts'

const SETTING_LINE = /^(?:# )?([A-Z][A-Z0-9_]*)=.*$/

const formatSetting = (name: string, schema: { default?: unknown }) =>
  `# ${name}=${String(schema.default ?? '')}`

/** Returns the text with the present defaults, without removed settings, and with new settings at its end. */
export function updateEnvExample(text: string): string {
  const missing = new Map<string, { default?: unknown }>(Object.entries(allSettings.properties))
  const lines = text
    .trimEnd()
    .split('\n')
    .flatMap((line) => {
      const name = SETTING_LINE.exec(line)?.[1]
      if (name === undefined) return [line]
      const schema = missing.get(name)
      missing.delete(name)
      return schema ? [formatSetting(name, schema)] : []
    })
  const added = [...missing].map(([name, schema]) => formatSetting(name, schema))
  return `${[...lines, ...(added.length > 0 ? ['', ...added] : [])].join('\n')}\n`
}
