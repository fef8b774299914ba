/**
 * `npm run create -- ../my-api`: does what `npm create resource-api` does with published packages, with those of this
 * repository.
 */
import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))

/** Packs the packages into a folder, as they would be published. */
export function packAll(folder: string): void {
  const workspaces = readdirSync(join(root, 'packages'))
    .filter((name) => existsSync(join(root, `packages/${name}/package.json`)))
    .map((name) => `--workspace=packages/${name}`)
  // The build has made them.
  const args = ['pack', '--ignore-scripts', '--silent', '--pack-destination', folder, ...workspaces]
  execFileSync('npm', args, { cwd: root, stdio: ['ignore', 'ignore', 'inherit'] })
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const folder = mkdtempSync(join(tmpdir(), 'resource-api-packages-'))
  try {
    console.error('Packing the packages ...')
    packAll(folder)
    console.error('Writing the application ...')
    const args = [
      join(root, 'packages/create/dist/create.js'),
      ...process.argv.slice(2),
      '--packages',
      folder,
    ]
    // npm has changed to the folder of package.json.
    execFileSync(process.execPath, args, { cwd: process.env.INIT_CWD ?? process.cwd(), stdio: 'inherit' })
  } catch {
    // The program has printed what is wrong.
    process.exitCode = 1
  } finally {
    rmSync(folder, { recursive: true })
  }
}
