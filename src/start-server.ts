/** Starts the server process and stops it on a signal. */
import './application.ts'
import { explainError } from '@resource-api/http/commands'
import { type Config, findMistypedNames, readConfig } from '@resource-api/http/config'
import { listen, logStrayRejections, watchSignals } from '@resource-api/http/process'
import { buildApp } from './app.ts'

async function start(config: Config): Promise<void> {
  const signals = watchSignals()
  const app = await buildApp(config)
  logStrayRejections(app.log)
  for (const warning of findMistypedNames()) app.log.warn(warning)
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

try {
  await start(readConfig())
} catch (error) {
  console.error(explainError('The service cannot start', error))
  process.exit(1)
}
