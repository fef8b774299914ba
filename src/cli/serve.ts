/** `serve`: the server, in this process. */
import type { Command } from './command.ts'

export const serve: Command = {
  summary: 'Run the server',
  options: {},
  async run() {
    await import('../server.ts')
    // The server ends the process by itself, when a signal asks it to.
    await new Promise(() => {})
  },
}
