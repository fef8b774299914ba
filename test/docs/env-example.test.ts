/** .env.example has every setting with its default, and nothing else. */
import { readFileSync } from 'node:fs'
import t from 'tap'
import { Settings } from '../../src/config/settings.ts'

const text = readFileSync(new URL('../../.env.example', import.meta.url), 'utf8')
const lines = [...text.matchAll(/^(?:# )?([A-Z_]+)=(.*)$/gm)].map(([, name = '', value = '']) => [
  name,
  value,
])

t.test('.env.example lists each setting once', async (t) => {
  t.same(lines.map(([name]) => name).sort(), Object.keys(Settings.properties).sort())
})

t.test('.env.example shows the defaults', async (t) => {
  const defaults = Object.entries(Settings.properties).map(([name, schema]) => [
    name,
    String(schema.default ?? ''),
  ])
  t.same(Object.fromEntries(lines), Object.fromEntries(defaults))
})
