/** Runs the files of `test/database` in one process. */
import { runArea } from '../helpers/run-area.ts'

await runArea('database')
