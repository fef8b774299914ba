/** Clones of the repository, with what is not committed yet, in which tests run git and the scripts of package.json. */
import { execFileSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, readdirSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

export const root = fileURLToPath(new URL('../../', import.meta.url))

/** Runs a command. Its output is that of both streams if it has failed. */
export function runIn(cwd: string, command: string, ...args: string[]): { code: number; output: string } {
  try {
    const output = execFileSync(command, args, { cwd, encoding: 'utf8', stdio: 'pipe', maxBuffer: 1e8 })
    return { code: 0, output }
  } catch (error) {
    const failed = error as { status?: number; stdout?: string; stderr?: string }
    return { code: failed.status ?? -1, output: `${failed.stdout}${failed.stderr}` }
  }
}

/** @throws Error if git fails */
export function git(cwd: string, ...args: string[]): string {
  const { code, output } = runIn(cwd, 'git', ...args)
  if (code !== 0) throw new Error(`git ${args.join(' ')}: ${output}`)
  return output.trim()
}

export function commitAll(cwd: string, message: string): void {
  git(cwd, 'add', '--all')
  git(cwd, 'commit', '--quiet', '--allow-empty', '-m', message)
}

/** What a clone has of its own in `node_modules`. */
const CLONED = new Set(['.cache', '@resource-api'])

/** Links all packages, so that caches below `node_modules` are those of the clone, and those of the repository too. */
export function linkPackages(clone: string): void {
  for (const folder of ['node_modules', 'packages/client/node_modules']) {
    if (!existsSync(join(root, folder))) continue
    mkdirSync(join(clone, folder), { recursive: true })
    for (const name of readdirSync(join(root, folder)).filter((each) => !CLONED.has(each)))
      symlinkSync(join(root, folder, name), join(clone, folder, name))
  }
  mkdirSync(join(clone, 'node_modules/@resource-api'))
  for (const name of readdirSync(join(clone, 'packages')))
    symlinkSync(join(clone, 'packages', name), join(clone, 'node_modules/@resource-api', name))
}

export function clone(from: string, to: string): void {
  git(root, 'clone', '--quiet', from, to)
  git(to, 'config', 'user.name', 'test')
  git(to, 'config', 'user.email', 'test@example.com')
}

/** Clones this repository, with a commit of what is not committed yet. */
export function cloneProduct(to: string): void {
  clone(root, to)
  git(to, 'checkout', '--quiet', '-B', 'main')
  const listed = git(root, 'ls-files', '-z', '--modified', '--others', '--exclude-standard')
  for (const path of listed.split('\0').filter((each) => each !== '' && existsSync(join(root, each))))
    cpSync(join(root, path), join(to, path))
  commitAll(to, 'Changes')
}

/** The options of tests of the shop, or of pages that show it: a project may have removed it. */
export const shopOptions = {
  skip: ['orders', 'posts', 'products'].every((name) => existsSync(join(root, `plugins/${name}.ts`)))
    ? false
    : 'a resource of the shop was removed',
}
