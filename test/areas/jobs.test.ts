/** Runs the files of `test/jobs` in one process. */
import { runArea } from '../helpers/run-area.ts'

await runArea('jobs')
