#!/usr/bin/env node
/** The executable of the command line: runs one command and sets the exit code. */
import { requireNodeVersion } from './node-version.ts'

requireNodeVersion()

// A reader such as `| head` may close the pipe early; that is not an error.
process.stdout.on('error', ({ code }: NodeJS.ErrnoException) => process.exit(code === 'EPIPE' ? 0 : 1))

const [{ commands }, { main }] = await Promise.all([import('./cli/commands.ts'), import('./cli/main.ts')])
process.exitCode = await main(commands, process.argv.slice(2))
