/** Runs the files of `test/accounts` in one process. */
import { runArea } from '../helpers/run-files.ts'

await runArea('accounts')
