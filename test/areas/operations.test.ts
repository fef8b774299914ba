/** Runs the files of `test/operations` in one process. */
import { runArea } from '../helpers/run-files.ts'

await runArea('operations')
