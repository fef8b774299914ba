/** Runs the files of `test/rows` in one process. */
import { runArea } from '../helpers/run-files.ts'

await runArea('rows')
