/** Runs npm for the scripts that change the repository. */
import { execFileSync } from 'node:child_process'

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
