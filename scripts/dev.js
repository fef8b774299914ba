/**
 * `npm run dev`: starts the server again after each change of a source. The packages are their sources if this repository
 * has them, and the installed ones elsewhere.
 */
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const conditions = existsSync('packages') ? ['--conditions=resource-api'] : []
const tsx = fileURLToPath(import.meta.resolve('tsx/cli'))
const { status } = spawnSync(process.execPath, [tsx, 'watch', ...conditions, 'src/server.ts'], {
  stdio: 'inherit',
})
process.exitCode = status ?? 1
