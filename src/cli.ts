#!/usr/bin/env node
/** The executable of the command line: runs one command and sets the exit code. */
import { requireNodeVersion } from '@resource-api/http/node-version'

requireNodeVersion()
const { loadEnvFile } = await import('@resource-api/http/env-file')
loadEnvFile()

// A reader such as `| head` may close the pipe early; that is not an error.
process.stdout.on('error', ({ code }: NodeJS.ErrnoException) => process.exit(code === 'EPIPE' ? 0 : 1))

const { run } = await import('./commands.ts')
process.exitCode = await run(process.argv.slice(2))
