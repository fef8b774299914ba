/** Handles SIGTERM and SIGINT: the first signal starts a graceful shutdown, a second one ends the process immediately. */
import type { FastifyBaseLogger, FastifyInstance } from 'fastify'

const EXIT_CODES = { SIGINT: 130, SIGTERM: 143 }
type Signal = keyof typeof EXIT_CODES

/** What is shut down: an app, or the processes that serve it. */
interface Drained extends Pick<FastifyInstance, 'drain'> {
  log: Pick<FastifyBaseLogger, 'info' | 'fatal'>
}

/** npm forwards a Ctrl-C that the process has received from the terminal already; a person needs longer to repeat it. */
const DUPLICATE_SIGNAL_WINDOW_MS = 300
/** Time for a shutdown, beyond its delay; then the process exits with 1. */
export const SHUTDOWN_TIMEOUT_MS = 20_000

/**
 * Installs the handlers: as process 1 of a container, a process without handlers ignores SIGTERM.
 * Until `drain` is called with an app, a signal ends the process immediately.
 */
export function watchSignals(): { drain(app: Drained, delay: number): void } {
  let stop = (signal: Signal): void => process.exit(EXIT_CODES[signal])
  process.on('SIGTERM', () => stop('SIGTERM'))
  process.on('SIGINT', () => stop('SIGINT'))
  return {
    drain(app, delay) {
      stop = createDrainHandler(app, delay)
    },
  }
}

function createDrainHandler(app: Drained, delay: number): (signal: Signal) => void {
  let startedAt: number | undefined
  return (signal) => {
    if (startedAt !== undefined) {
      if (performance.now() - startedAt > DUPLICATE_SIGNAL_WINDOW_MS) process.exit(EXIT_CODES[signal])
      return
    }
    startedAt = performance.now()
    app.log.info({ signal }, 'signal received')
    setTimeout(() => {
      app.log.fatal('shutdown timed out')
      process.exit(1)
    }, delay + SHUTDOWN_TIMEOUT_MS).unref()
    app.drain().then(
      () => process.exit(0),
      (error: unknown) => {
        app.log.fatal({ err: error }, 'shutdown failed')
        process.exit(1)
      },
    )
  }
}
