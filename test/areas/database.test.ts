/** Runs the files of `test/database` in one process. */
import { runArea } from '../helpers/run-files.ts'

await runArea('database')
