/**
 * `npm run rename -- clinic-api`: gives the product another name, in the text and the names of all files of the
 * repository. Exit code 2: nothing was written.
 */
import { execFileSync } from 'node:child_process'
import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { dirname } from 'node:path'
import { UsageError } from '../src/cli/usage-error.ts'

/** The name until now: the command replaces it here too. */
const NAME = 'resource-api'
/** As a name of npm, of a Kubernetes object and of a systemd unit. */
const PATTERN = /^[a-z][a-z0-9]*(?:-[a-z0-9]+)*$/
const MAX_LENGTH = 40
/** The license names its holders. */
const UNCHANGED = ['LICENSE']

const git = (...args: string[]): string => execFileSync('git', args, { encoding: 'utf8' })

const listFiles = () =>
  git('ls-files', '-z')
    .split('\0')
    .filter((file) => file !== '' && !UNCHANGED.includes(file))

/** Returns the spellings of a name: for packages and files, for metrics, and for environment variables. */
const spell = (name: string) => {
  const snakeCase = name.replaceAll('-', '_')
  return [name, snakeCase, snakeCase.toUpperCase()]
}

function createReplace(to: string): (text: string) => string {
  const spellings = spell(to)
  const patterns = spell(NAME).map((from) => new RegExp(`(?<![A-Za-z0-9])${from}(?![A-Za-z0-9])`, 'g'))
  return (text) => patterns.reduce((result, pattern, i) => result.replace(pattern, spellings[i] ?? to), text)
}

/** @throws UsageError */
function check(name: string | undefined, isForced: boolean): string {
  if (name === undefined)
    throw new UsageError('Usage: npm run rename -- NAME [--force], for example clinic-api')
  if (!PATTERN.test(name) || name.length > MAX_LENGTH) {
    throw new UsageError(
      `"${name}" is not a name: at most ${MAX_LENGTH} of a-z, 0-9 and -, such as clinic-api`,
    )
  }
  if (!isForced && git('status', '--porcelain') !== '') {
    throw new UsageError('The working tree has changes; commit them first, or use --force')
  }
  return name
}

async function rename(name: string): Promise<number> {
  const replace = createReplace(name)
  let count = 0
  for (const file of listFiles()) {
    const path = replace(file)
    if (path !== file) {
      await mkdir(dirname(path), { recursive: true })
      renameSync(file, path)
    }
    const content = readFileSync(path)
    // A NUL byte is in no text.
    const text = content.includes(0) ? undefined : content.toString()
    const replaced = text === undefined ? undefined : replace(text)
    if (replaced !== undefined && replaced !== text) writeFileSync(path, replaced)
    if (path !== file || replaced !== text) count += 1
  }
  return count
}

try {
  const args = process.argv.slice(2)
  const name = check(
    args.find((arg) => !arg.startsWith('--')),
    args.includes('--force'),
  )
  const count = await rename(name)
  console.log(`${NAME} is ${name} now, in ${count} files. Next:
  npm install && npm run format && npm run docs && npm test`)
} catch (error) {
  console.error(error instanceof Error ? error.message : error)
  process.exitCode = error instanceof UsageError ? 2 : 1
}
