/**
 * Runs Node.js with arguments: with the sources of the packages where they are in `packages/`, else with the installed ones.
 * `npm run migrations` and `npm run dev` use it.
 */
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const { NODE_OPTIONS = '' } = process.env
const options = existsSync(`${root}packages`) ? `${NODE_OPTIONS} --conditions=resource-api` : NODE_OPTIONS
const { status } = spawnSync(process.execPath, process.argv.slice(2), {
  cwd: root,
  env: { ...process.env, NODE_OPTIONS: options },
  stdio: 'inherit',
})
process.exitCode = status ?? 1
