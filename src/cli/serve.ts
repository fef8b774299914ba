/** `serve`: runs the server in this process. */
import { Command } from '@commander-js/extra-typings'

export const serve = new Command('serve').description('Run the server').action(async () => {
  await import('../start-server.ts')
  // The signal handlers of the server end the process.
  await new Promise(() => {})
})
