/** The commands of the package, and what commands share. */
export { createConsumerCommands } from './consumers.ts'
export { createJobCommands } from './jobs.ts'
