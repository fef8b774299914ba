/** Runs the files of `test/events` in one process. */
import { runArea } from '../helpers/run-files.ts'

await runArea('events')
