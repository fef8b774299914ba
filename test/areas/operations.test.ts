/** Runs the files of `test/operations` in one process. */
import { runArea } from '../helpers/run-area.ts'

await runArea('operations')
