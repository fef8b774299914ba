#!/usr/bin/env node
/** The process behind `resource-api`: one command, and its exit code. */
import { commands } from './cli/commands.ts'
import { main } from './cli/main.ts'

// Who reads only the beginning (`| head`) has what they wanted.
process.stdout.on('error', ({ code }: NodeJS.ErrnoException) => process.exit(code === 'EPIPE' ? 0 : 1))

process.exitCode = await main(commands, process.argv.slice(2))
