/** What `own.commands` gets: the program, to which it adds commands, and what the commands of the product share. */
import type { Command } from '@commander-js/extra-typings'
import { readConfig } from '@resource-api/http/config'
import { withDatabase, withMigratedDatabase } from './database.ts'
import { jsonOption } from './json-option.ts'
import { printRows } from './print-rows.ts'
import { UsageError } from './usage-error.ts'

export const commandTools = (program: Command) => ({
  program,
  readConfig,
  /** For commands that write: applies pending migrations first. */
  withDatabase,
  /** For commands that only read. */
  withMigratedDatabase,
  jsonOption,
  printRows,
  UsageError,
})

export type CommandTools = ReturnType<typeof commandTools>
