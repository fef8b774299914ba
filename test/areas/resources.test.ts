/** Runs the files of `test/resources` in one process. */
import { runArea } from '../helpers/run-area.ts'

await runArea('resources')
