/** Runs the files of `test/events` in one process. */
import { runArea } from '../helpers/run-area.ts'

await runArea('events')
