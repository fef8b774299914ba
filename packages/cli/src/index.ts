/** The face of the package: the frame of the command line, and what commands share. */
export type { CommandTools } from './command-tools.ts'
export { withDatabase, withMigratedDatabase } from './database.ts'
export { jsonOption } from './json-option.ts'
export { printResult, printRows } from './print-rows.ts'
export { addOwnCommands, createGroup, defineCommands, main } from './program.ts'
export { withProgress } from './progress.ts'
export { checkHeader, readServerOptions, type ServerOptions, urlOption } from './server-address.ts'
export { UsageError, wholeNumber } from './usage-error.ts'
