/** Brings generated code into the form of the application. */
import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'

const IMPORT = /^import \{ ([^}]*) \} from '([^']+)'\n/gm

/** Removes the names that the code does not use: the templates import whatever a resource may need. */
export function pruneImports(text: string): string {
  const code = text.replace(IMPORT, '').replace(/'(?:[^'\\\n]|\\.)*'|\/\/.*|\/\*[^*]*\*\//g, '')
  // Not a member (`pg.date`), the type of a cast (`::text`) or a property (`date: ...`).
  const isUsed = (name: string) =>
    new RegExp(`(?<![^.]\\.|[:\\w])${name.replace(/^type |^.* as /, '')}\\b(?!:)`).test(code)
  return text.replace(IMPORT, (_, names: string, module: string) => {
    const used = names.split(', ').filter(isUsed)
    return used.length > 0 ? `import { ${used.join(', ')} } from '${module}'\n` : ''
  })
}

/** Formats a file and sorts its imports as the application does, if it has Biome. */
export function format(root: string, path: string, text: string): string {
  const biome = join(root, 'node_modules/@biomejs/biome/bin/biome')
  if (!existsSync(biome)) return text
  const args = [biome, 'check', '--write', `--stdin-file-path=${path}`]
  return execFileSync(process.execPath, args, { cwd: root, input: text, encoding: 'utf8', stdio: 'pipe' })
}
