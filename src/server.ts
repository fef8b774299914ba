/** The process: settings, app, port, graceful end. */
import { buildApp } from './app.ts'
import { type Config, ConfigError, readConfig } from './config.ts'
import { listen } from './listen.ts'
import { watchSignals } from './signals.ts'

/** Says on standard error what keeps the service from starting. */
function refuse(error: unknown): void {
  if (error instanceof ConfigError) {
    console.error(`The settings are wrong:\n${error.problems.map((problem) => `  ${problem}`).join('\n')}`)
  } else if (error instanceof TypeError || error instanceof ReferenceError) {
    // A bug of ours: where it is helps more than what it says.
    console.error(`The service cannot start: ${error.stack}`)
  } else if (error instanceof Error) {
    console.error(`The service cannot start: ${error.message}`)
  } else {
    console.error('The service cannot start')
  }
}

async function start(config: Config): Promise<void> {
  const signals = watchSignals()
  const app = await buildApp(config)
  const address = await listen(app, config)
  signals.drain(app, config.SHUTDOWN_DELAY)
  process.on('uncaughtException', (error) => {
    app.log.fatal({ err: error }, 'a bug ends the process')
    process.exit(1)
  })
  // In production standard output holds JSON lines alone.
  if (config.NODE_ENV === 'production') app.log.info({ address, docs: `${address}/docs` }, 'ready')
  else console.log(`Ready at ${address}, documentation at ${address}/docs`)
}

try {
  await start(readConfig())
} catch (error) {
  refuse(error)
  process.exit(1)
}
