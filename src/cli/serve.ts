/** `serve`: runs the server in this process. */
import type { Command } from './command.ts'

export const serve: Command = {
  summary: 'Run the server',
  options: {},
  async run() {
    await import('../start-server.ts')
    // The signal handlers of the server end the process.
    await new Promise(() => {})
  },
}
