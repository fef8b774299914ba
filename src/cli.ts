#!/usr/bin/env node
/** The executable of the command line: runs one command and sets the exit code. */
import { commands } from './cli/commands.ts'
import { main } from './cli/main.ts'

// A reader such as `| head` may close the pipe early; that is not an error.
process.stdout.on('error', ({ code }: NodeJS.ErrnoException) => process.exit(code === 'EPIPE' ? 0 : 1))

process.exitCode = await main(commands, process.argv.slice(2))
