/** Runs the files of `test/accounts` in one process. */
import { runArea } from '../helpers/run-area.ts'

await runArea('accounts')
