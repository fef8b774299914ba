/** The commands of the service, a line each. */
import type { Commands } from './command.ts'
import { migrate } from './migrate.ts'
import { openapi } from './openapi.ts'
import { seed } from './seed.ts'
import { serve } from './serve.ts'

export const commands: Commands = { serve, migrate, seed, openapi }
