/** Runs git and npm for the scripts that change the repository. */
import { execFileSync } from 'node:child_process'
import { UsageError } from '../src/cli/usage-error.ts'

/** Returns what git prints in a working tree. @throws Error with its message */
export const gitIn = (folder: string, ...args: string[]): string =>
  execFileSync('git', args, {
    cwd: folder,
    encoding: 'utf8',
    maxBuffer: 1e9,
    stdio: ['ignore', 'pipe', 'pipe'],
  })

export const git = (...args: string[]): string => gitIn('.', ...args)

/** Splits what git prints with `-z`. */
export const splitNames = (output: string): string[] => output.split('\0').filter((name) => name !== '')

/** Returns the paths of the tracked files. */
export const listFiles = (folder = '.'): string[] => splitNames(gitIn(folder, 'ls-files', '-z'))

/** @throws UsageError if the working tree has changes */
export function ensureClean(): void {
  if (git('status', '--porcelain') === '') return
  throw new UsageError('The working tree has changes: commit them first')
}

/** Runs a script of package.json. Its output is shown only if it fails. */
export function runScript(script: string, args: readonly string[] = []): void {
  console.error(`npm run ${[script, ...args].join(' ')}`)
  try {
    execFileSync('npm', ['run', '--silent', script, ...(args.length > 0 ? ['--', ...args] : [])], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'pipe'],
    })
  } catch (error) {
    const { stdout = '', stderr = '' } = error as { stdout?: string; stderr?: string }
    throw new Error(`npm run ${script} failed:\n${stdout}${stderr}`.trimEnd(), { cause: error })
  }
}
