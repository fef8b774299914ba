/** The executable of the server. With the argument `--health`, it asks the running one, for the container's HEALTHCHECK. */
import { requireNodeVersion } from '@resource-api/http/node-version'

requireNodeVersion()
const { loadEnvFile } = await import('@resource-api/http/env-file')
loadEnvFile()
await import('./application.ts')
const { checkHealth, runServer } = await import('@resource-api/http/process')
if (process.argv.includes('--health')) checkHealth()
else await runServer(async (config) => (await import('./app.ts')).buildApp(config))
