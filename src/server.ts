/** The executable of the server: checks the version of Node.js and starts the server. */
import { requireNodeVersion } from './node-version.ts'

requireNodeVersion()
await import('./start-server.ts')
