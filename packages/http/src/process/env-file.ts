/** Reads `.env` of the current folder. An entry file calls this before it imports what reads the settings. */
import { existsSync } from 'node:fs'

const FILE = '.env'

/** Sets the variables of the file that the environment does not have. Ends the process if the file cannot be read. */
export function loadEnvFile(): void {
  if (!existsSync(FILE)) return
  try {
    process.loadEnvFile(FILE)
  } catch (error) {
    console.error(`The file ${FILE} cannot be read: ${error instanceof Error ? error.message : error}`)
    process.exit(1)
  }
}
