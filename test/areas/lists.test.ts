/** Runs the files of `test/lists` in one process. */
import { runArea } from '../helpers/run-files.ts'

await runArea('lists')
