#!/usr/bin/env node
/**
 * `npx resource-api`: `new`, `upgrade` and `client`, which write code of the application in the current folder; every other
 * command is one of the application itself: of its sources if it is about them, else of its build. Exit code 2: the command
 * line is wrong, and nothing was written.
 */
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { extname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { UsageError } from './usage-error.ts'

const [command = '', ...args] = process.argv.slice(2)
const root = process.cwd()

/** Runs `new` with the loader of TypeScript that the application has for its tests. */
function addResource(): void {
  const program = fileURLToPath(new URL(`./new/command${extname(import.meta.url)}`, import.meta.url))
  const { status } = spawnSync(process.execPath, ['--import=tsx', program, ...args], { stdio: 'inherit' })
  process.exitCode = status ?? 1
}

/** Runs a command of the application from its sources: the build may be older. */
function runSources(): void {
  const program = join(root, 'src/cli.ts')
  if (!existsSync(program))
    throw new UsageError(`There is no ${program}: run the command in the folder of an application`)
  const { status } = spawnSync(process.execPath, ['--import=tsx', program, command, ...args], {
    stdio: 'inherit',
  })
  process.exitCode = status ?? 1
}

const commands: Readonly<Record<string, () => unknown>> = {
  access: runSources,
  new: addResource,
  client: async () => (await import('./client/command.ts')).createClientFile(args, root),
  upgrade: async () => (await import('./upgrade.ts')).upgrade(args, root),
}

/** @throws UsageError if the folder has no build */
async function runApplication(): Promise<void> {
  const program = join(root, 'dist/src/cli.js')
  if (!existsSync(program))
    throw new UsageError(`There is no ${program}: run npm run build in the folder of the application`)
  await import(pathToFileURL(program).href)
}

try {
  await (Object.hasOwn(commands, command) ? commands[command]?.() : runApplication())
} catch (error) {
  console.error(error instanceof Error ? error.message : error)
  process.exitCode = error instanceof UsageError || Object(error).code?.startsWith('ERR_PARSE_ARGS') ? 2 : 1
}
