/** Runs the files of `test/rows` in one process. */
import { runArea } from '../helpers/run-area.ts'

await runArea('rows')
