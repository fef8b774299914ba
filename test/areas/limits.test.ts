/** Runs the files of `test/limits` in one process. */
import { runArea } from '../helpers/run-area.ts'

await runArea('limits')
