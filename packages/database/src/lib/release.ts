/**
 * The version of this release, from package.json. The file is read and not imported: the compiler would copy an imported
 * package.json into dist, and Node.js would then resolve `#package` there.
 */
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

function readVersion(): string {
  // drizzle-kit loads the tables as CommonJS, without `import.meta`, and needs no version.
  if (typeof import.meta.resolve !== 'function') return 'unknown'
  const parsed: unknown = JSON.parse(readFileSync(fileURLToPath(import.meta.resolve('#package')), 'utf8'))
  const hasVersion = typeof parsed === 'object' && parsed !== null && 'version' in parsed
  return hasVersion ? String(parsed.version) : 'unknown'
}

export const release = readVersion()
