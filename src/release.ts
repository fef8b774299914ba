/**
 * Which release this is, from package.json. It is read and not imported: the compiler would put a copy of an
 * imported one into dist, and `#migrations/*` would then be looked for there.
 */
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

function read(): string {
  const parsed: unknown = JSON.parse(readFileSync(fileURLToPath(import.meta.resolve('#package')), 'utf8'))
  const known = typeof parsed === 'object' && parsed !== null && 'version' in parsed
  return known ? String(parsed.version) : 'unknown'
}

export const release = read()
