/** What `npm start` gives Node.js before the script: whoever measures the service starts it alike. */
import { readFileSync } from 'node:fs'

const manifest: { scripts: { start: string } } = JSON.parse(
  readFileSync(new URL('../package.json', import.meta.url), 'utf8'),
)

export const startFlags: readonly string[] = manifest.scripts.start.split(' ').slice(1, -1)
