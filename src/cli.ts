#!/usr/bin/env node
/** The executable of the command line: runs one command and sets the exit code. */
import { requireNodeVersion } from './node-version.ts'

requireNodeVersion()

// A reader such as `| head` may close the pipe early; that is not an error.
process.stdout.on('error', ({ code }: NodeJS.ErrnoException) => process.exit(code === 'EPIPE' ? 0 : 1))

const { main } = await import('./cli/program.ts')
process.exitCode = await main(process.argv.slice(2))
