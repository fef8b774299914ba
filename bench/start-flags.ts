/** Reads the Node.js flags of `npm start`, so that measured servers start with the same ones. */
import { readFileSync } from 'node:fs'

const manifest: { scripts: { start: string } } = JSON.parse(
  readFileSync(new URL('../package.json', import.meta.url), 'utf8'),
)

export const startFlags: readonly string[] = manifest.scripts.start.split(' ').slice(1, -1)
