/** The executable of the server: checks the version of Node.js and starts the server. */
import { requireNodeVersion } from '@resource-api/http/node-version'

requireNodeVersion()
await import('./start-server.ts')
