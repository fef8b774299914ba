/** The commands of the package, and what commands share. */
export { createKeyCommands } from './api-keys.ts'
export { doctor } from './doctor.ts'
export { mailCommands } from './mail.ts'
export { restore } from './restore.ts'
export { signingKeysRotate } from './signing-keys.ts'
export { userCommands } from './users.ts'
