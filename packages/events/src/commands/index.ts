/** The commands of the package, and what commands share. */
export { createConsumerCommands } from './consumers.ts'
export { exportCommand } from './export.ts'
export { importCommand } from './import.ts'
export { createJobCommands } from './jobs.ts'
export { createSeedCommand } from './seed.ts'
export { eventsTail } from './tail.ts'
export { workCommands } from './work.ts'
