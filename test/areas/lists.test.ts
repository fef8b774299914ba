/** Runs the files of `test/lists` in one process. */
import { runArea } from '../helpers/run-area.ts'

await runArea('lists')
