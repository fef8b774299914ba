#!/usr/bin/env node
/** The commands of the service, a line each. */
import { main } from './cli/main.ts'
import { migrate } from './cli/migrate.ts'
import { openapi } from './cli/openapi.ts'
import { seed } from './cli/seed.ts'
import { serve } from './cli/serve.ts'

// Who reads only the beginning (`| head`) has what they wanted.
process.stdout.on('error', ({ code }: NodeJS.ErrnoException) => process.exit(code === 'EPIPE' ? 0 : 1))

process.exitCode = await main({ serve, migrate, seed, openapi }, process.argv.slice(2))
