/** Runs the server until a signal stops it. */
import type { FastifyBaseLogger, FastifyInstance } from 'fastify'
import { explainError } from '../config/explain-error.ts'
import { readConfig } from '../config/read-config.ts'
import type { Config } from '../config/settings.ts'
import { logStrayRejections } from '../observability/stray-rejections.ts'
import { listen } from './listen.ts'
import { watchSignals } from './signals.ts'

type BuildApp = (config: Config) => Promise<FastifyInstance>

/** Starts to serve the port. @returns the app and its address */
async function serve(buildApp: BuildApp, config: Config): Promise<{ app: FastifyInstance; address: string }> {
  const signals = watchSignals()
  const app = await buildApp(config)
  logStrayRejections(app.log)
  const address = await listen(app, config)
  signals.drain(app, config.SHUTDOWN_DELAY)
  process.on('uncaughtException', (error) => {
    app.log.fatal({ err: error }, 'uncaught exception: the process ends')
    process.exit(1)
  })
  return { app, address }
}

function announce(log: Pick<FastifyBaseLogger, 'info'>, config: Config, address: string): void {
  // In production standard output holds only JSON lines.
  if (config.NODE_ENV === 'production') log.info({ address, docs: `${address}/docs` }, 'ready')
  else console.log(`Ready at ${address}, documentation at ${address}/docs`)
}

/** Reads the settings, builds the app and listens. Ends the process with exit code 1 if that fails. */
export async function runServer(buildApp: BuildApp): Promise<void> {
  try {
    const config = readConfig()
    // Loaded only if there are several processes.
    const workers = config.WORKERS > 1 ? await import('./worker-processes.ts') : undefined
    if (workers?.isPrimary) {
      const { log, address } = await workers.startWorkers(config)
      return announce(log, config, address)
    }
    const { app, address } = await serve(buildApp, config)
    if (workers) workers.followPrimary(app, address)
    else announce(app.log, config, address)
  } catch (error) {
    console.error(explainError('The service cannot start', error))
    process.exit(1)
  }
}
