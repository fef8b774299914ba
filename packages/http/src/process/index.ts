/** The face of the server process: it listens, and ends on a signal. */
export { logStrayRejections } from '../observability/stray-rejections.ts'
export { listen } from './listen.ts'
export { watchSignals } from './signals.ts'
