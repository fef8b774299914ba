/** Runs the files of `test/jobs` in one process. */
import { runArea } from '../helpers/run-files.ts'

await runArea('jobs')
