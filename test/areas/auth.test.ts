/** Runs the files of `test/auth` in one process. */
import { runArea } from '../helpers/run-area.ts'

await runArea('auth')
