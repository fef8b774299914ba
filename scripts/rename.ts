/**
 * `npm run rename -- clinic-api`: gives the product another name, in the text and the names of all files of the
 * repository. Exit code 2: nothing was written.
 */
import { UsageError } from '../src/cli/usage-error.ts'
import { renameFiles } from './rename-files.ts'
import { ensureClean } from './run.ts'

/** The name until now: the command replaces it here too. */
const NAME = 'resource-api'
/** As a name of npm, of a Kubernetes object and of a systemd unit. */
const PATTERN = /^[a-z][a-z0-9]*(?:-[a-z0-9]+)*$/
const MAX_LENGTH = 40

/** @throws UsageError */
function check(name: string | undefined, isForced: boolean): string {
  if (name === undefined)
    throw new UsageError('Usage: npm run rename -- NAME [--force], for example clinic-api')
  if (!PATTERN.test(name) || name.length > MAX_LENGTH) {
    throw new UsageError(
      `"${name}" is not a name: at most ${MAX_LENGTH} of a-z, 0-9 and -, such as clinic-api`,
    )
  }
  if (!isForced) ensureClean()
  return name
}

try {
  const args = process.argv.slice(2)
  const name = check(
    args.find((arg) => !arg.startsWith('--')),
    args.includes('--force'),
  )
  const count = renameFiles('.', NAME, name)
  console.log(`${NAME} is ${name} now, in ${count} files. Next:
  npm install && npm run format && npm run docs && npm test`)
} catch (error) {
  console.error(error instanceof Error ? error.message : error)
  process.exitCode = error instanceof UsageError ? 2 : 1
}
