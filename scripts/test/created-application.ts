/** Applications that `npm run create` makes for an adopter, with the packages as they are published. */
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import { packAll } from '../create.ts'
import { root, runIn } from './git-clone.ts'

/** The packages of this repository by the names of their tarballs. */
const OWN = /^(?:@resource-api|create-resource-api)$/

/** Runs a command that has to succeed with these environment variables alone. @returns its output */
export function runWith(
  t: Test,
  cwd: string,
  env: NodeJS.ProcessEnv,
  command: string,
  ...args: string[]
): string {
  const settings = Object.entries(env).map(([key, value]) => `${key}=${value}`)
  const { code, output } = runIn(cwd, 'env', '-i', ...settings, command, ...args)
  // Of tests, the first one that failed.
  const first = output.search(/^ *not ok/m)
  const shown = first < 0 ? output.slice(-5_000) : output.slice(first, first + 5_000)
  t.equal(code, 0, `${[command, ...args].join(' ')}${code === 0 ? '' : `\n${shown}`}`)
  return output
}

/** Packs the packages into a folder that is deleted after the test, where it can make applications. */
export function packPackages(t: Test) {
  const folder = mkdtempSync(join(tmpdir(), 'resource-api-test-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const tarballs = join(folder, 'tarballs')
  mkdirSync(tarballs)
  packAll(tarballs)
  /** Tests run on the embedded database, with no other setting of this process. */
  const env = { PATH: process.env.PATH, HOME: folder, npm_config_update_notifier: 'false' }

  /** Makes an application. Its packages are the packed ones, and all others those of this repository. */
  function createApplication(name: string, example: string): string {
    const application = join(folder, name)
    const program = join(root, 'packages/create/dist/create.js')
    execFileSync(process.execPath, [program, application, '--example', example, '--packages', tarballs])
    const modules = join(application, 'node_modules')
    mkdirSync(join(modules, '@resource-api'), { recursive: true })
    for (const each of readdirSync(join(root, 'node_modules')).filter((other) => !OWN.test(other)))
      symlinkSync(join(root, 'node_modules', each), join(modules, each))
    for (const file of readdirSync(tarballs)) {
      const target = join(modules, file.replace(/-\d.*$/, '').replace(/^resource-api-/, '@resource-api/'))
      mkdirSync(target)
      execFileSync('tar', ['-xzf', join(tarballs, file), '--strip-components=1', '-C', target])
      // Dependencies of which the repository has another version at its top.
      const nested = join(
        root,
        'packages',
        file.replace(/-\d.*$/, '').replace(/-?resource-api-?/, ''),
        'node_modules',
      )
      if (existsSync(nested)) symlinkSync(nested, join(target, 'node_modules'))
    }
    return application
  }

  const run = (t: Test, cwd: string, command: string, ...args: string[]) =>
    runWith(t, cwd, env, command, ...args)

  /** Runs the checks that AGENTS.md of the application names. */
  function check(t: Test, application: string): void {
    for (const script of ['lint', 'typecheck', 'test']) run(t, application, 'npm', 'run', '--silent', script)
  }

  return { env, createApplication, run, check }
}
