/** What SIGTERM and SIGINT do: the first shuts down gracefully, a second ends the process at once. */
import type { FastifyInstance } from 'fastify'

const EXIT_CODES = { SIGINT: 130, SIGTERM: 143 }
type Signal = keyof typeof EXIT_CODES

/** npm passes Ctrl-C on to a process that the terminal has told already; people are slower than this. */
const ECHO = 300
/** Milliseconds, beyond the delay, after which a shutdown that hangs is given up. */
const PATIENCE = 20_000

/**
 * Listens to signals from now on: as the first process of a container, one that does not would go on.
 * Until there is an app to drain, a signal ends the process at once.
 */
export function watchSignals(): { drain(app: FastifyInstance, delay: number): void } {
  let stop = (signal: Signal): void => process.exit(EXIT_CODES[signal])
  process.on('SIGTERM', () => stop('SIGTERM'))
  process.on('SIGINT', () => stop('SIGINT'))
  return {
    drain(app, delay) {
      stop = drainOnce(app, delay)
    },
  }
}

function drainOnce(app: FastifyInstance, delay: number): (signal: Signal) => void {
  let since: number | undefined
  return (signal) => {
    if (since !== undefined) {
      if (performance.now() - since > ECHO) process.exit(EXIT_CODES[signal])
      return
    }
    since = performance.now()
    app.log.info({ signal }, 'asked to stop')
    setTimeout(() => {
      app.log.fatal('the shutdown hangs and is given up')
      process.exit(1)
    }, delay + PATIENCE).unref()
    app.drain().then(
      () => process.exit(0),
      (error: unknown) => {
        app.log.fatal({ err: error }, 'the shutdown failed')
        process.exit(1)
      },
    )
  }
}
