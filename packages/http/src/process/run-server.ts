/** Runs the server until a signal stops it. */
import type { FastifyInstance } from 'fastify'
import { explainError } from '../config/explain-error.ts'
import { readConfig } from '../config/read-config.ts'
import type { Config } from '../config/settings.ts'
import { logStrayRejections } from '../observability/stray-rejections.ts'
import { listen } from './listen.ts'
import { watchSignals } from './signals.ts'

type BuildApp = (config: Config) => Promise<FastifyInstance>

async function start(buildApp: BuildApp, config: Config): Promise<void> {
  const signals = watchSignals()
  const app = await buildApp(config)
  logStrayRejections(app.log)
  const address = await listen(app, config)
  signals.drain(app, config.SHUTDOWN_DELAY)
  process.on('uncaughtException', (error) => {
    app.log.fatal({ err: error }, 'uncaught exception: the process ends')
    process.exit(1)
  })
  // In production standard output holds only JSON lines.
  if (config.NODE_ENV === 'production') app.log.info({ address, docs: `${address}/docs` }, 'ready')
  else console.log(`Ready at ${address}, documentation at ${address}/docs`)
}

/** Reads the settings, builds the app and listens. Ends the process with exit code 1 if that fails. */
export async function runServer(buildApp: BuildApp): Promise<void> {
  try {
    await start(buildApp, readConfig())
  } catch (error) {
    console.error(explainError('The service cannot start', error))
    process.exit(1)
  }
}
