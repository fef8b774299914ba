/** The face of the server process: it listens, and ends on a signal. */
export { logStrayRejections } from '../observability/stray-rejections.ts'
export { checkHealth } from './check-health.ts'
export { runServer } from './run-server.ts'
