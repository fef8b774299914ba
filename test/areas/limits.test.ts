/** Runs the files of `test/limits` in one process. */
import { runArea } from '../helpers/run-files.ts'

await runArea('limits')
