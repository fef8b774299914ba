/** Runs the files of `test/auth` in one process. */
import { runArea } from '../helpers/run-files.ts'

await runArea('auth')
