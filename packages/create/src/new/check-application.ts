/** Checks that an application compiles and loads with a new resource. Takes a few seconds. */
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'

/** A mistake of the compiler, with its file; the lines after it that are indented explain it. */
const MISTAKE = /^([^(\n]+)\(\d+,\d+\): error .*(?:\n[ \t].*)*/gm

/**
 * @param paths of the files that were written. What is wrong with the types of others was so before.
 * @throws Error with the mistakes in these files, or with the reason why the application does not load
 */
export function checkApplication(root: string, paths: readonly string[]): void {
  const run = (args: readonly string[], stdout: 'pipe' | 'ignore') => {
    const stdio = ['ignore', stdout, 'pipe'] as const
    return spawnSync(process.execPath, args, { cwd: root, encoding: 'utf8', stdio: [...stdio] })
  }
  const compiler = join(root, 'node_modules/typescript/bin/tsc')
  if (existsSync(compiler)) {
    const { stdout } = run([compiler, '--noEmit', '--pretty', 'false'], 'pipe')
    const mistakes = [...stdout.matchAll(MISTAKE)].filter(([, path = '']) => paths.includes(path))
    if (mistakes.length > 0)
      throw new Error(
        `The application would not compile:\n${mistakes.map(([mistake]) => mistake).join('\n')}`,
      )
  }
  // It builds the service without a database, and checks all definitions, their examples and their documents.
  const { status, stderr } = run([...process.execArgv, 'src/cli.ts', 'openapi'], 'ignore')
  if (status !== 0) throw new Error(`The application would not load:\n${stderr.trim()}`)
}
